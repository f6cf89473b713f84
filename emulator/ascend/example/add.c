/* Adds two tensors through AscendCL, which it finds by its library's name as programs for the real device
 * do: run it with LD_LIBRARY_PATH at where the emulator is installed, or give the library's path. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void* Stream;

static void* library;

static void* Find(const char* name) {
  void* function = dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "%s is missing\n", name);
    exit(1);
  }
  return function;
}

static void Check(const char* what, int code) {
  if (code == 0) return;
  const char* message = ((const char* (*)(void))Find("aclGetRecentErrMsg"))();
  fprintf(stderr, "%s failed with %d: %s\n", what, code, message != NULL ? message : "");
  exit(1);
}

#define CALL(name, types, ...) Check(#name, ((int(*) types)Find(#name))(__VA_ARGS__))

enum { kFloat = 0, kFormatNd = 2, kToDevice = 1, kToHost = 2, kHugeFirst = 0, kCount = 4 };

static void* Tensor(void* data) {
  const int64_t dims[] = {kCount};
  const int64_t strides[] = {1};
  void* (*create)(const int64_t*, uint64_t, int, const int64_t*, int64_t, int, const int64_t*,
                  uint64_t, void*) = Find("aclCreateTensor");
  return create(dims, 1, kFloat, strides, 0, kFormatNd, dims, 1, data);
}

int main(int argc, char** argv) {
  library = dlopen(argc > 1 ? argv[1] : "libascendcl.so", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CALL(aclInit, (const char*), NULL);
  CALL(aclrtSetDevice, (int32_t), 0);
  Stream stream = NULL;
  CALL(aclrtCreateStreamWithConfig, (Stream*, uint32_t, uint32_t), &stream, 0, 0);

  /* Both operands and the sum in device memory, their way there in pinned host memory. */
  const size_t bytes = kCount * sizeof(float);
  void* data[3];
  void* tensors[3];
  float* host = NULL;
  CALL(aclrtMallocHost, (void**, size_t), (void**)&host, bytes);
  for (int i = 0; i < 3; ++i) {
    CALL(aclrtMalloc, (void**, size_t, int), &data[i], bytes, kHugeFirst);
    tensors[i] = Tensor(data[i]);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < kCount; ++j) host[j] = (float)(i == 0 ? j : 10 * j);
    CALL(aclrtMemcpyAsync, (void*, size_t, const void*, size_t, int, Stream), data[i], bytes, host,
         bytes, kToDevice, stream);
    CALL(aclrtSynchronizeStream, (Stream), stream); /* before the buffer is written again */
  }

  float one = 1;
  void* (*create_scalar)(void*, int) = Find("aclCreateScalar");
  void* alpha = create_scalar(&one, kFloat);
  uint64_t size = 0;
  void* executor = NULL;
  void* workspace = NULL;
  CALL(aclnnAddGetWorkspaceSize, (void*, void*, void*, void*, uint64_t*, void**), tensors[0],
       tensors[1], alpha, tensors[2], &size, &executor);
  if (size > 0) CALL(aclrtMalloc, (void**, size_t, int), &workspace, size, kHugeFirst);
  CALL(aclnnAdd, (void*, uint64_t, void*, Stream), workspace, size, executor, stream);
  CALL(aclrtMemcpyAsync, (void*, size_t, const void*, size_t, int, Stream), host, bytes, data[2],
       bytes, kToHost, stream);
  CALL(aclrtSynchronizeStream, (Stream), stream);
  for (int j = 0; j < kCount; ++j) printf("%s%g", j == 0 ? "" : " ", host[j]);
  printf("\n");

  CALL(aclDestroyScalar, (void*), alpha);
  for (int i = 0; i < 3; ++i) {
    CALL(aclDestroyTensor, (void*), tensors[i]);
    CALL(aclrtFree, (void*), data[i]);
  }
  if (workspace != NULL) CALL(aclrtFree, (void*), workspace);
  CALL(aclrtFreeHost, (void*), host);
  CALL(aclrtDestroyStream, (Stream), stream);
  CALL(aclrtResetDevice, (int32_t), 0);
  CALL(aclFinalize, (void));
  return 0;
}
