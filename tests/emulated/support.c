// What the emulated machine needs beside the Bochs core, built by machine.py on
// first use: the kernel stubs that run inside it, the AMX instructions that the
// packaged core lacks, and the libc names that it was linked against.
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Names that glibc has only since 2.38
// ------------------------------------------------------

unsigned long long __isoc23_strtoull(const char* s, char** e, int b) { return strtoull(s, e, b); }
long long __isoc23_strtoll(const char* s, char** e, int b) { return strtoll(s, e, b); }
unsigned long __isoc23_strtoul(const char* s, char** e, int b) { return strtoul(s, e, b); }
long __isoc23_strtol(const char* s, char** e, int b) { return strtol(s, e, b); }
int __isoc23_sscanf(const char* s, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const int n = vsscanf(s, format, args);
  va_end(args);
  return n;
}

// ---- Kernel stubs
// ------------------------------------------------------------------------------

// One page of ring-0 code. Each entry is a door to the host: an INVLPG, of
// which the core tells. Exception vector v enters at 16 v, SYSCALL at 16 * 32.
// The last one changes threads: it stores the vector registers at RDI and loads
// those at RSI.
__asm__(
    ".section .rodata\n"
    ".balign 4096\n"
    ".globl stubs\n"
    "stubs:\n"
    "vector = 0\n"
    ".rept 32\n"
    "  .org stubs + 16 * vector\n"
    "  invlpg (%rsp)\n"
    "  .if vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 "
    "|| vector == 21\n"
    "    add $8, %rsp\n"  // the error code
    "  .endif\n"
    "  iretq\n"
    "  vector = vector + 1\n"
    ".endr\n"
    "  .org stubs + 0x200\n"
    "  invlpg (%rsp)\n"
    "  sysretq\n"
    "  .org stubs + 16 * 33\n"
    "  xsave64 (%rdi)\n"
    "  xrstor64 (%rsi)\n"
    "  invlpg (%rsp)\n"
    "  sysretq\n"
    "  .org stubs + 4096\n"
    ".text\n");

// ---- AMX
// ---------------------------------------------------------------------------------------

enum { kTiles = 8, kRows = 16, kRowBytes = 64 };

// The program's memory as the host sees it: address a is base + a where its
// page table entry allows. The kernel's pages follow at top.
typedef struct {
  uint8_t* base;
  const uint64_t* entries;
  uint64_t top;
} Memory;

struct Tiles {
  bool configured;
  uint8_t start_row;
  uint8_t rows[kTiles];
  uint16_t row_bytes[kTiles];
  uint8_t data[kTiles][kRows][kRowBytes];
} tiles;
const size_t tiles_size = sizeof(tiles);

enum { kPresent = 1, kWritable = 2 };

// The host's view of n bytes at address, or null with *fault set.
static uint8_t* Access(const Memory* memory, uint64_t address, uint64_t n, uint64_t need,
                       uint64_t* fault) {
  for (uint64_t page = address >> 12; page <= (address + n - 1) >> 12; ++page) {
    if (page >= memory->top >> 12 || (memory->entries[page] & need) != need) {
      *fault = page == address >> 12 ? address : page << 12;
      return NULL;
    }
  }
  return memory->base + address;
}

static void Release(void) { memset(&tiles, 0, sizeof(tiles)); }

static bool Configure(const uint8_t* config) {
  if (config[0] == 0) {
    Release();
    return true;
  }
  static const uint8_t zeros[16];
  bool valid = config[0] == 1 && memcmp(config + 2, zeros, 14) == 0 &&
               memcmp(config + 32, zeros, 16) == 0 && memcmp(config + 56, zeros, 8) == 0;
  for (int t = 0; t < kTiles; ++t) {
    uint16_t row_bytes;
    memcpy(&row_bytes, config + 16 + 2 * t, 2);
    const uint8_t rows = config[48 + t];
    valid = valid && row_bytes <= kRowBytes && rows <= kRows && (row_bytes == 0) == (rows == 0);
  }
  if (!valid) {
    return false;
  }
  Release();
  tiles.configured = true;
  tiles.start_row = config[1];
  memcpy(tiles.row_bytes, config + 16, sizeof(tiles.row_bytes));
  memcpy(tiles.rows, config + 48, sizeof(tiles.rows));
  return true;
}

static void StoreConfig(uint8_t* config) {
  memset(config, 0, 64);
  if (tiles.configured) {
    config[0] = 1;
    config[1] = tiles.start_row;
    memcpy(config + 16, tiles.row_bytes, sizeof(tiles.row_bytes));
    memcpy(config + 48, tiles.rows, sizeof(tiles.rows));
  }
}

static bool Usable(unsigned t) {
  return tiles.configured && t < kTiles && tiles.rows[t] != 0 && tiles.row_bytes[t] % 4 == 0;
}

static float FlushDenormal(float x) { return fabsf(x) < 0x1p-126F ? copysignf(0.0F, x) : x; }

static float FromBfloat16(const uint8_t* x) {
  const uint32_t bits = (uint32_t)x[1] << 24 | (uint32_t)x[0] << 16;
  float value;
  memcpy(&value, &bits, 4);
  return FlushDenormal(value);
}

// Even and odd members of the pairs have a sum of their own; both join the
// accumulator at the end.
static void MultiplyBfloat16(unsigned c, unsigned a, unsigned b) {
  enum { kPairs = kRowBytes / 4 };
  float left[kRows][2][kPairs];
  float right[kRows][2][kPairs];
  for (unsigned r = 0; r < kRows; ++r) {
    for (unsigned i = 0; i < 2 * kPairs; ++i) {
      left[r][i % 2][i / 2] = FromBfloat16(tiles.data[a][r] + 2 * i);
      right[r][i % 2][i / 2] = FromBfloat16(tiles.data[b][r] + 2 * i);
    }
  }
  for (unsigned m = 0; m < tiles.rows[c]; ++m) {
    float sums[2][kPairs] = {{0}};
    for (unsigned k = 0; k < tiles.rows[b]; ++k) {
      for (unsigned i = 0; i < 2; ++i) {
        for (unsigned n = 0; n < kPairs; ++n) {
          sums[i][n] = FlushDenormal(fmaf(left[m][i][k], right[k][i][n], sums[i][n]));
        }
      }
    }
    float out[kPairs];
    memcpy(out, tiles.data[c][m], kRowBytes);
    for (unsigned n = 0; n < kPairs; ++n) {
      out[n] = FlushDenormal(FlushDenormal(out[n]) + FlushDenormal(sums[0][n] + sums[1][n]));
    }
    memset(tiles.data[c][m], 0, kRowBytes);
    memcpy(tiles.data[c][m], out, tiles.row_bytes[c]);
  }
}

static int32_t FromByte(uint8_t x, bool is_signed) { return is_signed ? (int8_t)x : x; }

static void MultiplyBytes(unsigned c, unsigned a, unsigned b, bool a_signed, bool b_signed) {
  enum { kQuads = kRowBytes / 4 };
  int32_t left[kRows][4][kQuads];
  int32_t right[kRows][4][kQuads];
  for (unsigned r = 0; r < kRows; ++r) {
    for (unsigned i = 0; i < kRowBytes; ++i) {
      left[r][i % 4][i / 4] = FromByte(tiles.data[a][r][i], a_signed);
      right[r][i % 4][i / 4] = FromByte(tiles.data[b][r][i], b_signed);
    }
  }
  for (unsigned m = 0; m < tiles.rows[c]; ++m) {
    uint32_t out[kQuads];
    memcpy(out, tiles.data[c][m], kRowBytes);
    for (unsigned k = 0; k < tiles.rows[b]; ++k) {
      for (unsigned i = 0; i < 4; ++i) {
        for (unsigned n = 0; n < kQuads; ++n) {
          out[n] += (uint32_t)(left[m][i][k] * right[k][i][n]);
        }
      }
    }
    memset(tiles.data[c][m], 0, kRowBytes);
    memcpy(tiles.data[c][m], out, tiles.row_bytes[c]);
  }
}

// The general registers in the processor's order, then RIP.
enum { kRsp = 4, kRip = 16, kRegisters };

typedef struct {
  unsigned prefix;  // 0 none, 1 66, 2 F3, 3 F2
  unsigned opcode;
  unsigned mod, reg, rm, vvvv;
  bool has_sib, has_index;
  uint64_t address;  // of the memory operand, without the index
  uint64_t stride;   // the scaled index
  int length;
} Instruction;

// Takes apart a VEX instruction of map 0F38 with W = L = 0, the form of all of
// AMX.
static bool Decode(const uint8_t* code, const uint64_t* registers, Instruction* in) {
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0) {
    return false;
  }
  const unsigned index_high = code[1] & 0x40 ? 0 : 8;
  const unsigned base_high = code[1] & 0x20 ? 0 : 8;
  *in = (Instruction){.prefix = code[2] & 3, .opcode = code[3], .vvvv = (~code[2] >> 3) & 15};
  in->mod = code[4] >> 6;
  in->reg = ((code[4] >> 3) & 7) | (code[1] & 0x80 ? 0 : 8);
  in->rm = code[4] & 7;
  in->length = 5;
  if (in->mod == 3) {
    in->rm |= base_high;
    return true;
  }
  unsigned base = in->rm;
  in->has_sib = in->rm == 4;
  if (in->has_sib) {
    const uint8_t sib = code[in->length++];
    const unsigned index = ((sib >> 3) & 7) | index_high;
    in->has_index = index != 4;
    in->stride = in->has_index ? registers[index] << (sib >> 6) : 0;
    base = sib & 7;
  }
  int32_t displacement = 0;
  const bool no_base = in->mod == 0 && base == 5;
  if (in->mod == 1) {
    displacement = (int8_t)code[in->length++];
  } else if (in->mod == 2 || no_base) {
    memcpy(&displacement, code + in->length, 4);
    in->length += 4;
  }
  in->address = (uint64_t)(int64_t)displacement;
  if (!no_base) {
    in->address += registers[base | base_high];
  } else if (!in->has_sib) {
    in->address += registers[kRip] + (uint64_t)in->length;  // relative to the next instruction
  }
  return true;
}

// Runs the instruction at registers[kRip] if it is one of AMX's.
// Returns its length; 0: none of AMX's or one that the processor refuses as
// undefined; -1: a page fault at *fault; -2: a general protection fault.
static int Execute(const uint64_t* registers, const Memory* memory, uint64_t* fault) {
  enum { kNone, k66, kF3, kF2 };
  Instruction in;
  if (!Decode(memory->base + registers[kRip], registers, &in)) {
    return 0;
  }
  const bool in_memory = in.mod != 3;
  if (in.opcode == 0x49 && in_memory && in.reg == 0 && in.prefix <= k66) {
    const bool load = in.prefix == kNone;  // LDTILECFG, STTILECFG
    uint8_t* config =
        Access(memory, in.address + in.stride, 64, load ? kPresent : kPresent | kWritable, fault);
    if (config == NULL) {
      return -1;
    }
    if (load && !Configure(config)) {
      return -2;
    }
    if (!load) {
      StoreConfig(config);
    }
  } else if (in.opcode == 0x49 && !in_memory && in.prefix == kNone && in.reg == 0 && in.rm == 0) {
    Release();
  } else if (in.opcode == 0x49 && !in_memory && in.prefix == kF2 && in.rm == 0) {
    if (!Usable(in.reg)) {
      return 0;
    }
    memset(tiles.data[in.reg], 0, sizeof(tiles.data[0]));
  } else if (in.opcode == 0x4B && in_memory && in.prefix != kNone) {
    const bool load = in.prefix != kF3;  // TILELOADD, TILELOADDT1; TILESTORED
    if (!in.has_sib || !Usable(in.reg) || tiles.start_row >= tiles.rows[in.reg]) {
      return 0;
    }
    const unsigned row_bytes = tiles.row_bytes[in.reg];
    for (unsigned pass = 0; pass < 2; ++pass) {  // all rows are reached before one is changed
      for (unsigned r = tiles.start_row; r < tiles.rows[in.reg]; ++r) {
        uint8_t* row = Access(memory, in.address + r * in.stride, row_bytes,
                              load ? kPresent : kPresent | kWritable, fault);
        if (row == NULL) {
          return -1;
        }
        if (pass == 1) {
          memcpy(load ? tiles.data[in.reg][r] : row, load ? row : tiles.data[in.reg][r], row_bytes);
        }
      }
      if (pass == 0 && load && tiles.start_row == 0) {
        memset(tiles.data[in.reg], 0, sizeof(tiles.data[0]));
      }
    }
    tiles.start_row = 0;
  } else if ((in.opcode == 0x5E || (in.opcode == 0x5C && in.prefix == kF3)) && !in_memory) {
    const unsigned c = in.reg;
    const unsigned a = in.rm;
    const unsigned b = in.vvvv;
    if (c == a || c == b || a == b || !Usable(a) || !Usable(b) || !Usable(c) ||
        tiles.row_bytes[c] != tiles.row_bytes[b] || tiles.rows[c] != tiles.rows[a] ||
        tiles.row_bytes[a] / 4 != tiles.rows[b]) {
      return 0;
    }
    if (in.opcode == 0x5C) {
      MultiplyBfloat16(c, a, b);
    } else {
      MultiplyBytes(c, a, b, in.prefix == kF2 || in.prefix == kF3,
                    in.prefix == kF2 || in.prefix == k66);
    }
    memset(tiles.data[c][tiles.rows[c]], 0, (size_t)(kRows - tiles.rows[c]) * kRowBytes);
    tiles.start_row = 0;
  } else {
    return 0;
  }
  return in.length;
}

// ---- The host's door
// ---------------------------------------------------------------------------

// What the hook on INVLPG gets.
typedef struct {
  void* processor;
  uint64_t (*read[kRegisters])(void* processor);
  Memory memory;
  bool amx;                    // the program may use it
  void (*on_event)(int what);  // called for what is not done here
  int outcome;                 // Execute's, with its fault
  uint64_t fault;
} Door;

void on_invlpg(Door* door, uint32_t id, uint32_t kind, uint64_t address) {
  enum { kUndefined = 6 };
  (void)id, (void)kind, (void)address;
  const int what = (int)(door->read[kRip](door->processor) % 4096 / 16);
  if (what == kUndefined && door->amx) {
    uint64_t registers[kRegisters];
    for (int i = 0; i < kRegisters; ++i) {
      registers[i] = door->read[i](door->processor);
    }
    // On the kernel's stack the processor left RIP, CS, RFLAGS, RSP and SS.
    const uint64_t kernel = 0xFFFF800000000000;
    uint64_t* frame = (uint64_t*)(door->memory.base + door->memory.top + registers[kRsp] - kernel);
    registers[kRip] = frame[0];
    registers[kRsp] = frame[3];
    door->outcome = Execute(registers, &door->memory, &door->fault);
    if (door->outcome > 0) {
      frame[0] += (uint64_t)door->outcome;
      return;
    }
  }
  door->on_event(what);
}

// ---- CPUID
// -------------------------------------------------------------------------------------

typedef void (*CpuidLeaf)(const void* model, uint32_t leaf, uint32_t subleaf, uint32_t* registers);
static CpuidLeaf model_leaf;

// The model's own answer, with the AMX of Sapphire Rapids added.
static void LeafWithAmx(const void* model, uint32_t leaf, uint32_t subleaf, uint32_t* r) {
  enum { kEax, kEbx, kEcx, kEdx };
  model_leaf(model, leaf, subleaf, r);
  if (leaf == 7 && subleaf == 0) {
    r[kEdx] |= 1U << 22 | 1U << 24 | 1U << 25;  // bf16, tile, int8
  } else if (leaf == 0xD && subleaf == 0) {
    r[kEax] |= 3U << 17;
    r[kEbx] = r[kEcx] = 2816 + 8192;
  } else if (leaf == 0xD && (subleaf == 17 || subleaf == 18)) {
    r[kEax] = subleaf == 17 ? 64 : 8192;
    r[kEbx] = subleaf == 17 ? 2752 : 2816;
    r[kEcx] = subleaf == 17 ? 2 : 6;
  } else if (leaf == 0x1D && subleaf == 0) {
    r[kEax] = 1;
  } else if (leaf == 0x1D && subleaf == 1) {
    r[kEax] = 1024U << 16 | 8192;
    r[kEbx] = kTiles << 16 | kRowBytes;
    r[kEcx] = kRows;
  } else if (leaf == 0x1E && subleaf == 0) {
    r[kEbx] = kRowBytes << 8 | kRows;
  }
}

// Puts a copy of its class's table, with LeafWithAmx for get_cpuid_leaf, into
// the model.
void add_amx_to_cpuid(void** model) {
  enum { kHeader = 2, kEntries = 16, kGetCpuidLeaf = 4 };
  static void* table[kHeader + kEntries];
  memcpy(table, (void**)*model - kHeader, sizeof(table));
  model_leaf = (CpuidLeaf)table[kHeader + kGetCpuidLeaf];
  table[kHeader + kGetCpuidLeaf] = (void*)LeafWithAmx;
  *model = table + kHeader;
}
