// The emulated processor against plain C: AVX-512 and AMX instructions of which
// the kernels live. Prints what differs; exits with the number of differences.
// README.md has the command.
#include <cpuid.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int differences;

static void Same(const char* what, const void* found, const void* wanted, size_t bytes) {
  if (memcmp(found, wanted, bytes) != 0) {
    printf("%s differs\n", what);
    ++differences;
  }
}

static void Fill(void* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    ((uint8_t*)data)[i] = (uint8_t)(rand() >> 7);
  }
}

static void FillFloats(float* data, int n) {
  for (int i = 0; i < n; ++i) {
    data[i] = (float)(rand() % 20001 - 10000) / 777.0F;
  }
}

static uint16_t ToBfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float FromBfloat16(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static void CheckFloats(void) {
  float a[16], b[16], c[16], found[16], wanted[16] = {0};
  FillFloats(a, 16), FillFloats(b, 16), FillFloats(c, 16);
  const __m512 va = _mm512_loadu_ps(a), vb = _mm512_loadu_ps(b), vc = _mm512_loadu_ps(c);
  for (int i = 0; i < 16; ++i) {
    wanted[i] = fmaf(a[i], b[i], c[i]);
  }
  _mm512_storeu_ps(found, _mm512_fmadd_ps(va, vb, vc));
  Same("VFMADDPS", found, wanted, 64);

  uint16_t positive = 0, mask = _mm512_cmp_ps_mask(va, _mm512_setzero_ps(), _CMP_GT_OQ);
  float packed[16] = {0}, packed_wanted[16] = {0};
  for (int i = 0, n = 0; i < 16; ++i) {
    positive |= (uint16_t)((a[i] > 0) << i);
    if (a[i] > 0) {
      packed_wanted[n++] = a[i];
    }
  }
  Same("VCMPPS", &mask, &positive, 2);
  _mm512_mask_compressstoreu_ps(packed, positive, va);
  Same("VCOMPRESSPS", packed, packed_wanted, 64);

  uint16_t halves[16], halves_wanted[16];
  const __m256bh narrow = _mm512_cvtneps_pbh(va);
  memcpy(halves, &narrow, 32);
  for (int i = 0; i < 16; ++i) {
    halves_wanted[i] = ToBfloat16(a[i]);
  }
  Same("VCVTNEPS2BF16", halves, halves_wanted, 32);

  uint16_t x[32], y[32];
  for (int i = 0; i < 32; ++i) {
    x[i] = ToBfloat16((float)(rand() % 64 - 32));
    y[i] = ToBfloat16((float)(rand() % 64 - 32));
  }
  for (int i = 0; i < 16; ++i) {  // small whole numbers: exact in any order
    wanted[i] = (float)i;
    for (int j = 2 * i; j < 2 * i + 2; ++j) {
      wanted[i] += FromBfloat16(x[j]) * FromBfloat16(y[j]);
    }
    c[i] = (float)i;
  }
  __m512bh vx, vy;
  memcpy(&vx, x, 64), memcpy(&vy, y, 64);
  _mm512_storeu_ps(found, _mm512_dpbf16_ps(_mm512_loadu_ps(c), vx, vy));
  Same("VDPBF16PS", found, wanted, 64);

  for (int i = 0; i < 16; ++i) {
    wanted[i] = (float)(_Float16)a[i];
  }
  _mm512_storeu_ps(found, _mm512_cvtph_ps(_mm512_cvtps_ph(va, _MM_FROUND_TO_NEAREST_INT)));
  Same("VCVTPS2PH, VCVTPH2PS", found, wanted, 64);
}

static void CheckBytes(void) {
  uint8_t a[64], index[64], found[64], wanted[64];
  int8_t b[64];
  int32_t sums[16], sums_wanted[16] = {0};
  Fill(a, 64), Fill(b, 64), Fill(index, 64);
  const __m512i va = _mm512_loadu_si512(a), vb = _mm512_loadu_si512(b);
  const __m512i vi = _mm512_loadu_si512(index);
  for (int i = 0; i < 64; ++i) {
    sums_wanted[i / 4] += a[i] * b[i];
    wanted[i] = a[index[i] % 64];
  }
  _mm512_storeu_si512(sums, _mm512_dpbusd_epi32(_mm512_setzero_si512(), va, vb));
  Same("VPDPBUSD", sums, sums_wanted, 64);
  _mm512_storeu_si512(found, _mm512_permutexvar_epi8(vi, va));
  Same("VPERMB", found, wanted, 64);
  for (int i = 0; i < 64; ++i) {
    wanted[i] = index[i] & 0x80 ? 0 : a[i / 16 * 16 + index[i] % 16];
  }
  _mm512_storeu_si512(found, _mm512_shuffle_epi8(va, vi));
  Same("VPSHUFB", found, wanted, 64);
}

// ---- AMX
// ---------------------------------------------------------------------------------------

typedef struct {
  uint8_t palette, start_row, zeros[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} TileConfig;

enum { kM = 13, kN = 11, kK = 9, kStride = 80 };  // in elements of 4 bytes; the stride in bytes

static void CheckTileBytes(void) {
  int8_t a[16 * kStride], b[16 * kStride];
  int32_t c[16 * kStride / 4];
  Fill(a, sizeof(a)), Fill(b, sizeof(b)), Fill(c, sizeof(c));
  for (int kind = 0; kind < 4; ++kind) {
    int32_t wanted[16 * kStride / 4], found[16 * kStride / 4];
    memcpy(wanted, c, sizeof(c)), memcpy(found, c, sizeof(c));
    for (int m = 0; m < kM; ++m) {
      for (int n = 0; n < kN; ++n) {
        uint32_t sum = (uint32_t)wanted[m * kStride / 4 + n];
        for (int i = 0; i < 4 * kK; ++i) {
          const int8_t x = a[m * kStride + i], y = b[i / 4 * kStride + 4 * n + i % 4];
          sum += (uint32_t)((kind & 2 ? (uint8_t)x : x) * (kind & 1 ? (uint8_t)y : y));
        }
        wanted[m * kStride / 4 + n] = (int32_t)sum;
      }
    }
    _tile_loadd(0, c, kStride);
    _tile_loadd(1, a, kStride);
    _tile_stream_loadd(2, b, kStride);
    switch (kind) {
      case 0:
        _tile_dpbssd(0, 1, 2);
        break;
      case 1:
        _tile_dpbsud(0, 1, 2);
        break;
      case 2:
        _tile_dpbusd(0, 1, 2);
        break;
      default:
        _tile_dpbuud(0, 1, 2);
    }
    _tile_stored(0, found, kStride);
    Same(((const char*[]){"TDPBSSD", "TDPBSUD", "TDPBUSD", "TDPBUUD"})[kind], found, wanted,
         sizeof(found));
  }
}

static void CheckTileBfloat16(void) {
  uint16_t a[16][32], b[16][32];
  float found[16][16], wanted[16][16];
  for (int i = 0; i < 16 * 32; ++i) {
    a[i / 32][i % 32] = ToBfloat16((float)(rand() % 2001 - 1000) / 300.0F);
    b[i / 32][i % 32] = ToBfloat16((float)(rand() % 2001 - 1000) / 700.0F);
  }
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sums[2] = {0};
      for (int k = 0; k < 32; ++k) {
        const float x = FromBfloat16(a[m][k]), y = FromBfloat16(b[k / 2][2 * n + k % 2]);
        sums[k % 2] = fmaf(x, y, sums[k % 2]);
      }
      wanted[m][n] = sums[0] + sums[1];
    }
  }
  _tile_zero(3);
  _tile_loadd(4, a, 64);
  _tile_loadd(5, b, 64);
  _tile_dpbf16ps(3, 4, 5);
  _tile_stored(3, found, 64);
  Same("TDPBF16PS", found, wanted, sizeof(found));
}

static void CheckTiles(void) {
  if (syscall(SYS_arch_prctl, 0x1023, 18) != 0) {
    printf("no AMX\n");
    ++differences;
    return;
  }
  TileConfig config = {.palette = 1,
                       .row_bytes = {4 * kN, 4 * kK, 4 * kN, 64, 64, 64},
                       .rows = {kM, kM, kK, 16, 16, 16}};
  TileConfig stored;
  _tile_loadconfig(&config);
  _tile_storeconfig(&stored);
  Same("STTILECFG", &stored, &config, sizeof(config));
  CheckTileBytes();
  CheckTileBfloat16();
  _tile_release();
  _tile_storeconfig(&stored);
  Same("TILERELEASE", &stored, &(TileConfig){0}, sizeof(stored));
}

int main(void) {
  for (int round = 0; round < 20; ++round) {
    CheckFloats();
    CheckBytes();
    CheckTiles();
  }
  printf("%d differences\n", differences);
  return differences > 100 ? 100 : differences;
}
