#include "device/opencl/kernels.hpp"

#include <algorithm>
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
    const auto known = std::ranges::find_if(substitutions, [&](const Substitution& substitution) {
      return text.starts_with(substitution.first);
    });
    if (known == substitutions.end()) {
      out += '$';
      continue;
    }
    out += known->second;
    text.remove_prefix(known->first.size());
  }
  return out;
}

std::string define(std::string_view name, std::size_t number) {
  return "#define " + std::string(name) + ' ' + std::to_string(number) + '\n';
}

// OpenCL types for storing, computing, comparing and summing a dtype. Integer arithmetic is unsigned, because
// signed overflow is undefined; integer sums have 64 bits.
struct Types {
  DTypeTag dtype;
  std::string_view stored;
  std::string_view number;
  std::string_view load;     // expression that loads element i of p
  std::string_view convert;  // expression that converts the number x to the stored type
  std::string_view accumulator;
  std::string_view widen;  // expression that loads element i of p for sums and comparisons
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

// Fused operations would round once where the host rounds twice.
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

// Rounds to nearest, ties to even; NaN stays NaN.
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

// Computes the indexes of one element in views of up to eight dimensions; only the last `rank` are used.
constexpr std::string_view places = R"(
void find_places(ulong i, int rank, long8 extents, long8 sa, long8 sb, long8 so, long* a, long* b, long* out) {
  long e[8], ta[8], tb[8], to[8];
  vstore8(extents, 0, e);
  vstore8(sa, 0, ta);
  vstore8(sb, 0, tb);
  vstore8(so, 0, to);
  for (int d = 7; d >= 8 - rank; --d) {
    const long at = (long)(i % (ulong)e[d]);
    i /= (ulong)e[d];
    *a += at * ta[d];
    *b += at * tb[d];
    *out += at * to[d];
  }
}
)";

constexpr std::string_view copy = R"(
kernel void copy_strided(global const Stored* a, long a0, global Stored* out, long out0, ulong n, int rank,
                         long8 extents, long8 sa, long8 so) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  long b = 0;
  find_places(i, rank, extents, sa, sa, so, &a0, &b, &out0);
  out[out0] = a[a0];
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
                          long out0, ulong n, int rank, long8 extents, long8 sa, long8 sb, long8 so) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  find_places(i, rank, extents, sa, sb, so, &a0, &b0, &out0);
  store(out, (ulong)out0, calculate_$name(load(a, (ulong)a0), load(b, (ulong)b0)));
}
)";

// Each lane reads a block of elements (step 1) or every step-th element. Later buffers of a tensor continue
// with the partial results.
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

// Loads weights or biases of another dtype. The dtype of the computation represents all of their values.
constexpr std::string_view weight_loader = R"(
typedef $stored $Type;
Number load_$name(global const $Type* p, ulong i) { return (Number)($widen); }
)";

// Computes one tile of the result per work-group. `batch` is the index of the matrices in the leading
// dimensions.
constexpr std::string_view matmul = R"(
kernel void matmul(global const Stored* a, long a0, long a_row, long a_column, long8 a_batch,
                   global const Weight* b, long b0, long b_row, long b_column, long8 b_batch, global Stored* out,
                   long out0, long8 extents, long m, long k, long n, global const Stored* bias, long bias0,
                   int has_bias) {
  local Number tile_a[TILE][TILE];
  local Number tile_b[TILE][TILE];
  const long row = get_global_id(1), column = get_global_id(0), batch = get_global_id(2);
  const int y = get_local_id(1), x = get_local_id(0);
  long matrix_a = a0, matrix_b = b0, unused = 0;
  find_places((ulong)batch, 8, (long8)(1, 1, extents.s0, extents.s1, extents.s2, extents.s3, extents.s4, extents.s5),
              (long8)(0, 0, a_batch.s0, a_batch.s1, a_batch.s2, a_batch.s3, a_batch.s4, a_batch.s5),
              (long8)(0, 0, b_batch.s0, b_batch.s1, b_batch.s2, b_batch.s3, b_batch.s4, b_batch.s5), (long8)(0),
              &matrix_a, &matrix_b, &unused);
  Number sum = 0;
  for (long from = 0; from < k; from += TILE) {
    tile_a[y][x] = row < m && from + x < k ? load(a, (ulong)(matrix_a + row * a_row + (from + x) * a_column)) : 0;
    tile_b[y][x] = from + y < k && column < n
                       ? load_weight(b, (ulong)(matrix_b + (from + y) * b_row + column * b_column)) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TILE; ++i) sum += tile_a[y][i] * tile_b[i][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (row >= m || column >= n) return;
  if (has_bias) sum += bias[bias0 + column];
  store(out, (ulong)(out0 + (batch * m + row) * n + column), sum);
}
)";

// One work-item per row of weights, with eight independent sums.
constexpr std::string_view vectors = R"(
#define SUMS 8
kernel void linear_vectors(global const Stored* x, long x0, global const Weight* w, long w0, long w_row, long w_column,
                           global Stored* out, long out0, long rows, long columns, global const Stored* bias,
                           long bias0, int has_bias) {
  const long row = get_global_id(0), vector = get_global_id(1);
  if (row >= rows) return;
  x += x0 + vector * columns;
  w += w0 + row * w_row;
  Number sums[SUMS] = {0, 0, 0, 0, 0, 0, 0, 0};
  long i = 0;
  if (w_column == 1) {
    for (; i + SUMS <= columns; i += SUMS) {
      for (int j = 0; j < SUMS; ++j) sums[j] += x[i + j] * load_weight(w, (ulong)(i + j));
    }
  }
  for (; i < columns; ++i) sums[0] += x[i] * load_weight(w + i * w_column, 0);
  for (int step = SUMS / 2; step > 0; step /= 2) {
    for (int j = 0; j < step; ++j) sums[j] += sums[j + step];
  }
  if (has_bias) sums[0] += bias[bias0 + row];
  out[out0 + vector * rows + row] = sums[0];
}
)";

// One work-item per element of the result. Products are added in the order of the weight's elements. The
// components of `options` are: stride y, x; padding y, x; dilation y, x; groups; 1 if x or w is empty.
constexpr std::string_view convolution = R"(
kernel void conv2d(global const Stored* x, long x0, global const Weight* w, long w0, global const Bias* bias,
                   long bias0, int has_bias, global Stored* out, long out0, ulong n, long8 x_extents,
                   long8 w_extents, long8 out_extents, long8 options) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  const long channels = x_extents.s5, height = x_extents.s6, width = x_extents.s7;
  const long outputs = w_extents.s4, depth = w_extents.s5, kernel_height = w_extents.s6, kernel_width = w_extents.s7;
  const long column = (long)(i % (ulong)out_extents.s7), row = (long)(i / (ulong)out_extents.s7 % (ulong)out_extents.s6);
  const long plane = (long)(i / (ulong)(out_extents.s6 * out_extents.s7));
  const long output = plane % outputs, image = plane / outputs;
  const long group = output / (outputs / options.s6);
  Number sum = 0;
  for (long c = 0; c < depth && !options.s7; ++c) {
    global const Stored* from = x + x0 + (image * channels + group * depth + c) * height * width;
    global const Weight* by = w + w0 + (output * depth + c) * kernel_height * kernel_width;
    for (long u = 0; u < kernel_height; ++u) {
      const long y = row * options.s0 + u * options.s4 - options.s2;
      if (y < 0 || y >= height) continue;
      for (long v = 0; v < kernel_width; ++v) {
        const long at = column * options.s1 + v * options.s5 - options.s3;
        if (at >= 0 && at < width) sum += load_weight(by, (ulong)(u * kernel_width + v)) * from[y * width + at];
      }
    }
  }
  if (has_bias) sum += load_bias(bias, (ulong)(bias0 + output));
  out[out0 + (long)i] = sum;
}
)";

std::string weight_loader_text(std::string_view name, std::string_view type, DTypeTag dtype) {
  const Types& t = types_of(dtype);
  return substitute(weight_loader,
                    {{"stored", t.stored}, {"Type", type}, {"name", name}, {"widen", t.widen}});
}

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
                {"convert", t.convert}});
}

}  // namespace

std::string core_text(DTypeTag dtype) {
  const Types& t = types_of(dtype);
  std::string text = prelude_for(t);
  text += places;
  text += copy;
  text += substitute(binary, {{"name", "add"}, {"operator", "+"}});
  text += substitute(binary, {{"name", "subtract"}, {"operator", "-"}});
  text += substitute(binary, {{"name", "multiply"}, {"operator", "*"}});
  if (t.floating) text += substitute(binary, {{"name", "divide"}, {"operator", "/"}});
  text +=
      substitute(reduction, {{"name", "reduce_sum"},
                             {"start", "0"},
                             {"combine", t.floating ? "all + x" : "(Accumulator)((ulong)all + (ulong)x)"}});
  // The largest number; NaN if an element is NaN.
  text += substitute(reduction,
                     {{"name", "reduce_max"},
                      {"start", t.lowest},
                      {"combine", t.floating ? "x > all || isnan(x) ? x : all" : "x > all ? x : all"}});
  return text;
}

std::string linear_text(DTypeTag dtype, DTypeTag weight) {
  std::string text = prelude_for(types_of(dtype));
  text += weight_loader_text("weight", "Weight", weight);
  text += places;
  text += define("TILE", tile_size);
  text += matmul;
  text += vectors;
  return text;
}

std::string nn_text(DTypeTag dtype, DTypeTag weight, DTypeTag bias) {
  std::string text = prelude_for(types_of(dtype));
  text += weight_loader_text("weight", "Weight", weight);
  text += weight_loader_text("bias", "Bias", bias);
  text += dtype == F64::tag ? "#define NUMBER(x) x\n" : "#define NUMBER(x) x##f\n";
  text += define("LANES", group_size);
  text += nn_kernels();
  return text;
}

std::string conv_text(DTypeTag dtype, DTypeTag weight, DTypeTag bias) {
  std::string text = prelude_for(types_of(dtype));
  text += weight_loader_text("weight", "Weight", weight);
  text += weight_loader_text("bias", "Bias", bias);
  text += convolution;
  return text;
}

}  // namespace ht::inline v1::opencl
