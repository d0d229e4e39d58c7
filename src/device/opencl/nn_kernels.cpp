#include "device/opencl/kernels.hpp"

#include <bit>

namespace ht::inline v1::opencl {

// Row kernels use one work-group per row: each of its LANES work-items reads every LANES-th element, and a
// tree combines their results.
static_assert(std::has_single_bit(group_size));

std::string_view nn_kernels() {
  return R"(
Number combine_lanes(local Number* lanes, Number mine, int is_max) {
  const int lane = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  lanes[lane] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int offset = LANES / 2; offset > 0; offset /= 2) {
    if (lane < offset) {
      const Number other = lanes[lane + offset];
      if (!is_max) lanes[lane] += other;
      else if (other > lanes[lane] || isnan(other)) lanes[lane] = other;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return lanes[0];
}
Number largest_of(global const Number* row, ulong n, local Number* lanes) {
  Number largest = -INFINITY;
  for (ulong i = get_local_id(0); i < n; i += LANES) {
    if (row[i] > largest || isnan(row[i])) largest = row[i];
  }
  return combine_lanes(lanes, largest, 1);
}
kernel void softmax(global const Number* x, ulong x0, global Number* out, ulong out0, ulong n) {
  local Number lanes[LANES];
  x += x0 + get_group_id(0) * n;
  out += out0 + get_group_id(0) * n;
  const int lane = get_local_id(0);
  const Number largest = largest_of(x, n, lanes);
  // A row of only -infinity is masked: its results are 0. `is_masked` is the same in all lanes.
  const int is_masked = largest == -INFINITY;
  Number sum = 0;
  for (ulong i = lane; i < n; i += LANES) {
    const Number power = is_masked ? NUMBER(0.0) : exp(x[i] - largest);
    out[i] = power;
    sum += power;
  }
  sum = combine_lanes(lanes, sum, 0);
  for (ulong i = lane; i < n; i += LANES) out[i] = is_masked ? NUMBER(0.0) : out[i] / sum;
}
kernel void log_softmax(global const Number* x, ulong x0, global Number* out, ulong out0, ulong n) {
  local Number lanes[LANES];
  x += x0 + get_group_id(0) * n;
  out += out0 + get_group_id(0) * n;
  const int lane = get_local_id(0);
  const Number largest = largest_of(x, n, lanes);
  const int is_masked = largest == -INFINITY;
  Number sum = 0;
  for (ulong i = lane; i < n; i += LANES) sum += exp(x[i] - largest);
  const Number logarithm = log(combine_lanes(lanes, sum, 0));
  for (ulong i = lane; i < n; i += LANES) out[i] = is_masked ? -INFINITY : (x[i] - largest) - logarithm;
}
// Whether x precedes `than`: NaN before numbers, a larger number before a smaller one, then the lower index. The
// index n means no element.
int is_better(Number x, ulong at, Number than, ulong than_at, ulong n) {
  if (at == n || than_at == n) return at != n;
  if (isnan(x) != isnan(than)) return isnan(x);
  if (x > than) return 1;
  return !(x < than) && at < than_at;
}
kernel void argmax(global const Number* x, ulong x0, global long* out, ulong out0, ulong n) {
  local Number best[LANES];
  local ulong places[LANES];
  x += x0 + get_group_id(0) * n;
  const int lane = get_local_id(0);
  Number mine = 0;
  ulong place = n;
  for (ulong i = lane; i < n; i += LANES) {
    if (!is_better(x[i], i, mine, place, n)) continue;
    mine = x[i];
    place = i;
  }
  best[lane] = mine;
  places[lane] = place;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int offset = LANES / 2; offset > 0; offset /= 2) {
    const int other = lane + offset;
    if (lane < offset && is_better(best[other], places[other], best[lane], places[lane], n)) {
      best[lane] = best[other];
      places[lane] = places[other];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) out[out0 + get_group_id(0)] = (long)places[0];
}
kernel void norm(global const Number* x, ulong x0, global const Weight* weight, ulong weight0,
                 global const Bias* bias, ulong bias0, global Number* out, ulong out0, ulong n, Number epsilon,
                 int has_mean, int has_bias) {
  local Number lanes[LANES];
  x += x0 + get_group_id(0) * n;
  out += out0 + get_group_id(0) * n;
  const int lane = get_local_id(0);
  Number sum = 0;
  if (has_mean) {
    for (ulong i = lane; i < n; i += LANES) sum += x[i];
  }
  const Number mean = combine_lanes(lanes, sum, 0) / (Number)n;
  Number squares = 0;
  for (ulong i = lane; i < n; i += LANES) squares += (x[i] - mean) * (x[i] - mean);
  squares = combine_lanes(lanes, squares, 0);
  const Number scale = NUMBER(1.0) / sqrt(squares / (Number)n + epsilon);
  for (ulong i = lane; i < n; i += LANES) {
    const Number normed = (x[i] - mean) * scale * load_weight(weight, weight0 + i);
    out[i] = has_bias ? normed + load_bias(bias, bias0 + i) : normed;
  }
}
// x / (1 + e^-z), computed from e^-|z|, which does not overflow. -0 where x is -infinity.
Number times_sigmoid(Number x, Number z) {
  const Number power = exp(-fabs(z));
  const Number product = x * (z < 0 ? power : NUMBER(1.0)) / (NUMBER(1.0) + power);
  return x == -INFINITY ? -NUMBER(0.0) : product;
}
kernel void silu(global const Number* x, ulong x0, global const Number* unused, ulong unused0, global Number* out,
                 ulong out0, ulong n) {
  const ulong i = get_global_id(0);
  if (i < n) out[out0 + i] = times_sigmoid(x[x0 + i], x[x0 + i]);
}
kernel void swiglu(global const Number* gate, ulong gate0, global const Number* x, ulong x0, global Number* out,
                   ulong out0, ulong n) {
  const ulong i = get_global_id(0);
  if (i < n) out[out0 + i] = times_sigmoid(gate[gate0 + i], gate[gate0 + i]) * x[x0 + i];
}
// x/2 · erfc(-x / √2) avoids a difference of nearly equal numbers.
kernel void gelu(global const Number* x, ulong x0, global const Number* unused, ulong unused0, global Number* out,
                 ulong out0, ulong n) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  const Number value = x[x0 + i];
  const Number product = NUMBER(0.5) * value * erfc(-value * NUMBER(0.70710678118654752440));
  out[out0 + i] = value == -INFINITY ? -NUMBER(0.0) : product;
}
// 1 + tanh z = 2 / (1 + e^-2z).
kernel void gelu_tanh(global const Number* x, ulong x0, global const Number* unused, ulong unused0,
                      global Number* out, ulong out0, ulong n) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  const Number value = x[x0 + i];
  const Number cubed = value + NUMBER(0.044715) * value * value * value;
  out[out0 + i] = times_sigmoid(value, NUMBER(1.59576912160573071176) * cubed);
}
// Rotates each element with the other element of its pair; copies the elements after the pairs.
kernel void rope(global const Number* x, ulong x0, global const Number* cosines, ulong cosines0,
                 global const Number* sines, ulong sines0, global Number* out, ulong out0, ulong n, ulong heads,
                 ulong head_size, ulong pairs, int is_interleaved) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  x += x0;
  const ulong at = i % head_size;
  const ulong token = i / (heads * head_size);
  if (at >= 2 * pairs) {
    out[out0 + i] = x[i];
    return;
  }
  const ulong pair = is_interleaved ? at / 2 : at % pairs;
  const int is_first = is_interleaved ? at % 2 == 0 : at < pairs;
  const ulong step = is_interleaved ? 1 : pairs;
  const Number cosine = cosines[cosines0 + token * pairs + pair];
  const Number sine = sines[sines0 + token * pairs + pair];
  out[out0 + i] = is_first ? x[i] * cosine - x[i + step] * sine : x[i] * cosine + x[i - step] * sine;
}
kernel void embedding(global const Weight* table, long table0, long row_stride, long column_stride,
                      global const long* ids, ulong ids0, global Number* out, ulong out0, ulong n, ulong columns) {
  const ulong i = get_global_id(0);
  if (i >= n) return;
  const long row = ids[ids0 + i / columns];
  out[out0 + i] = load_weight(table, (ulong)(table0 + row * row_stride + (long)(i % columns) * column_stride));
}
)";
}

}  // namespace ht::inline v1::opencl
