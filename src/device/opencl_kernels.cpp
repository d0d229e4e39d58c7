#include "device/opencl_kernels.hpp"

#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace ht::inline v1::opencl {
namespace {

using Substitution = std::pair<std::string_view, std::string_view>;

std::string substitute(std::string_view text, std::initializer_list<Substitution> substitutions) {
  std::string out;
  while (!text.empty()) {
    const auto at = text.find('$');
    out += text.substr(0, at);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
    for (const auto& [name, value] : substitutions) {
      if (!text.starts_with(name)) continue;
      out += value;
      text.remove_prefix(name.size());
      break;
    }
  }
  return out;
}

// How a dtype is stored, calculated, compared and added up. Integers are unsigned in arithmetic, as signed
// ones must not overflow; sums of them have 64 bits.
struct Types {
  DTypeTag dtype;
  std::string_view stored;
  std::string_view number;
  std::string_view load;   // of the stored s
  std::string_view store;  // of the number x
  std::string_view accumulator;
  std::string_view widen;  // the stored s for sums and comparisons
  std::string_view lowest;
  bool floating = false;
};

constexpr std::string_view half_load = "vload_half(0, (global const half*)(p + i))";
constexpr std::string_view bf16_load = "as_float((uint)p[i] << 16)";

constexpr std::array types{
    Types{U8::tag, "uchar", "uint", "p[i]", "(uchar)x", "ulong", "p[i]", "0"},
    Types{I8::tag, "char", "uint", "(uint)p[i]", "(char)x", "long", "p[i]", "LONG_MIN"},
    Types{U16::tag, "ushort", "uint", "p[i]", "(ushort)x", "ulong", "p[i]", "0"},
    Types{I16::tag, "short", "uint", "(uint)p[i]", "(short)x", "long", "p[i]", "LONG_MIN"},
    Types{U32::tag, "uint", "uint", "p[i]", "x", "ulong", "p[i]", "0"},
    Types{I32::tag, "int", "uint", "(uint)p[i]", "(int)x", "long", "p[i]", "LONG_MIN"},
    Types{U64::tag, "ulong", "ulong", "p[i]", "x", "ulong", "p[i]", "0"},
    Types{I64::tag, "long", "ulong", "(ulong)p[i]", "(long)x", "long", "p[i]", "LONG_MIN"},
    Types{F16::tag, "ushort", "float", half_load, "half_bits(x)", "float", half_load, "-INFINITY", true},
    Types{BF16::tag, "ushort", "float", bf16_load, "bf16_bits(x)", "float", bf16_load, "-INFINITY", true},
    Types{F32::tag, "float", "float", "p[i]", "x", "float", "p[i]", "-INFINITY", true},
    Types{F64::tag, "double", "double", "p[i]", "x", "double", "p[i]", "-INFINITY", true},
};

const Types& types_of(DTypeTag dtype) {
  for (const auto& each : types) {
    if (each.dtype == dtype) return each;
  }
  return types.back();
}

// Fused operations round once where the host rounds twice.
constexpr std::string_view prelude = R"(#pragma OPENCL FP_CONTRACT OFF
$extension
typedef $stored Stored;
typedef $number Number;
typedef $accumulator Accumulator;
$helper
Number load(global const Stored* p, ulong i) { return $load; }
Accumulator widen(global const Stored* p, ulong i) { return $widen; }
void store(global Stored* p, ulong i, Number x) { p[i] = $convert; }
)";

// Rounds to the nearest, ties to even; a NaN stays one.
constexpr std::string_view half_helper = R"(ushort half_bits(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (private half*)&bits);
  return bits;
}
)";
constexpr std::string_view bf16_helper = R"(ushort bf16_bits(float x) {
  const uint bits = as_uint(x);
  if (isnan(x)) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
)";

// The places of one element in views of up to eight dimensions; the last `rank` of the eight are used.
constexpr std::string_view places = R"(
void find_places(ulong i, int rank, long8 extents, long8 sa, long8 sb, long* a, long* b) {
  long e[8], ta[8], tb[8];
  vstore8(extents, 0, e);
  vstore8(sa, 0, ta);
  vstore8(sb, 0, tb);
  for (int d = 7; d >= 8 - rank; --d) {
    const long at = (long)(i % (ulong)e[d]);
    i /= (ulong)e[d];
    *a += at * ta[d];
    *b += at * tb[d];
  }
}
kernel void copy_strided(global const Stored* a, long a0, global Stored* out, ulong out0, ulong n, int rank,
                         long8 extents, long8 sa) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  long b = 0;
  find_places(i, rank, extents, sa, sa, &a0, &b);
  out[out0 + i] = a[a0];
}
)";

constexpr std::string_view binary = R"(
Number calculate_$name(Number x, Number y) { return x $operator y; }
kernel void $name(global const Stored* a, ulong a0, global const Stored* b, ulong b0, global Stored* out,
                  ulong out0, ulong n) {
  const ulong i = get_global_id(0);
  if (i < n) store(out, out0 + i, calculate_$name(load(a, a0 + i), load(b, b0 + i)));
}
kernel void $name_strided(global const Stored* a, long a0, global const Stored* b, long b0, global Stored* out,
                          ulong out0, ulong n, int rank, long8 extents, long8 sa, long8 sb) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  find_places(i, rank, extents, sa, sb, &a0, &b0);
  store(out, out0 + i, calculate_$name(load(a, (ulong)a0), load(b, (ulong)b0)));
}
)";

// Each lane takes a block of elements (step 1) or every step-th one. Later buffers of a tensor go on from the
// partial results of the first.
constexpr std::string_view reduction = R"(
kernel void $name(global const Stored* a, ulong a0, ulong n, ulong block, ulong step, global Accumulator* partial,
                  int is_first) {
  const ulong lane = get_global_id(0);
  Accumulator all = is_first ? (Accumulator)($start) : partial[lane];
  const ulong begin = lane * block;
  const ulong end = step == 1 ? min(n, begin + block) : n;
  for (ulong i = begin; i < end; i += step) {
    const Accumulator x = widen(a, a0 + i);
    all = $combine;
  }
  partial[lane] = all;
}
)";

constexpr std::string_view matmul = R"(
#define TILE 16
kernel void matmul(global const Stored* a, long a0, long a_row, long a_column, global const Stored* b, long b0,
                   long b_row, long b_column, global Stored* out, long out0, long m, long k, long n) {
  local Number tile_a[TILE][TILE];
  local Number tile_b[TILE][TILE];
  const long row = get_global_id(1), column = get_global_id(0);
  const int y = get_local_id(1), x = get_local_id(0);
  Number sum = 0;
  for (long from = 0; from < k; from += TILE) {
    tile_a[y][x] = row < m && from + x < k ? load(a, (ulong)(a0 + row * a_row + (from + x) * a_column)) : 0;
    tile_b[y][x] = from + y < k && column < n ? load(b, (ulong)(b0 + (from + y) * b_row + column * b_column)) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TILE; ++i) sum += tile_a[y][i] * tile_b[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (row < m && column < n) store(out, (ulong)(out0 + row * n + column), sum);
}
)";

// A group a row; 64 lanes take every 64th element and combine their results in a tree.
constexpr std::string_view rows = R"(
#define LANES 64
float combine_lanes(local float* lanes, float mine, int is_max) {
  const int lane = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  lanes[lane] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_of = LANES / 2; half_of > 0; half_of /= 2) {
    if (lane < half_of) {
      const float other = lanes[lane + half_of];
      if (!is_max) lanes[lane] += other;
      else if (other > lanes[lane] || isnan(other)) lanes[lane] = other;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return lanes[0];
}
kernel void softmax(global const float* x, ulong x0, global float* out, ulong out0, ulong n) {
  local float lanes[LANES];
  const ulong row = get_group_id(0) * n;
  const int lane = get_local_id(0);
  float largest = -INFINITY;
  for (ulong i = lane; i < n; i += LANES) {
    const float value = x[x0 + row + i];
    if (value > largest || isnan(value)) largest = value;
  }
  largest = combine_lanes(lanes, largest, 1);
  // A row of -infinity alone, all masked, becomes 0; all lanes agree on it.
  if (largest == -INFINITY) {
    for (ulong i = lane; i < n; i += LANES) out[out0 + row + i] = 0;
    return;
  }
  float sum = 0;
  for (ulong i = lane; i < n; i += LANES) {
    const float power = exp(x[x0 + row + i] - largest);
    out[out0 + row + i] = power;
    sum += power;
  }
  sum = combine_lanes(lanes, sum, 0);
  for (ulong i = lane; i < n; i += LANES) out[out0 + row + i] /= sum;
}
kernel void rms_norm(global const float* x, ulong x0, global const float* weight, ulong weight0, global float* out,
                     ulong out0, ulong n, float epsilon) {
  local float lanes[LANES];
  const ulong row = get_group_id(0) * n;
  const int lane = get_local_id(0);
  float squares = 0;
  for (ulong i = lane; i < n; i += LANES) squares += x[x0 + row + i] * x[x0 + row + i];
  squares = combine_lanes(lanes, squares, 0);
  const float scale = 1.0f / sqrt(squares / (float)n + epsilon);
  for (ulong i = lane; i < n; i += LANES) out[out0 + row + i] = x[x0 + row + i] * scale * weight[weight0 + i];
}
kernel void silu(global const float* x, ulong x0, global float* out, ulong out0, ulong n) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  const float value = x[x0 + i];
  // Of the smaller power, which does not overflow.
  const float power = exp(-fabs(value));
  const float product = value * (value < 0 ? power : 1.0f) / (1.0f + power);
  out[out0 + i] = value == -INFINITY ? -0.0f : product;
}
)";

std::string prelude_for(const Types& t) {
  return substitute(
      prelude, {{"extension", t.dtype == F64::tag ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" : ""},
                {"stored", t.stored},
                {"number", t.number},
                {"accumulator", t.accumulator},
                {"helper", t.dtype == F16::tag    ? half_helper
                           : t.dtype == BF16::tag ? bf16_helper
                                                  : std::string_view()},
                {"load", t.load},
                {"widen", t.widen},
                {"convert", t.store}});
}

}  // namespace

std::string core_text(DTypeTag dtype) {
  const Types& t = types_of(dtype);
  std::string text = prelude_for(t);
  text += places;
  text += substitute(binary, {{"name", "add"}, {"operator", "+"}});
  text += substitute(binary, {{"name", "subtract"}, {"operator", "-"}});
  text += substitute(binary, {{"name", "multiply"}, {"operator", "*"}});
  if (t.floating) text += substitute(binary, {{"name", "divide"}, {"operator", "/"}});
  text += substitute(reduction, {{"name", "reduce_sum"}, {"start", "0"}, {"combine", "all + x"}});
  // The largest number, NaN where there is one.
  text += substitute(reduction,
                     {{"name", "reduce_max"},
                      {"start", t.lowest},
                      {"combine", t.floating ? "x > all || isnan(x) ? x : all" : "x > all ? x : all"}});
  return text;
}

std::string linear_text(DTypeTag dtype) { return prelude_for(types_of(dtype)) + std::string(matmul); }

std::string nn_text() { return "#pragma OPENCL FP_CONTRACT OFF\n" + std::string(rows); }

}  // namespace ht::inline v1::opencl
