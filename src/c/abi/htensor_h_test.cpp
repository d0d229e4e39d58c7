// The numbers in htensor.h equal those of the C++ library.
#include <htensor/htensor.h>

#include <cstddef>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/diff.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/load/load.hpp>

namespace ht::htensor_h_test {
namespace {

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}

#define HT_SAME_CODE(C, CPP) static_assert(same(C, ErrorCode::CPP))
HT_SAME_CODE(HT_OPEN_FAILED, open_failed);
HT_SAME_CODE(HT_READ_FAILED, read_failed);
HT_SAME_CODE(HT_MAP_FAILED, map_failed);
HT_SAME_CODE(HT_UNMAP_FAILED, unmap_failed);
HT_SAME_CODE(HT_WRITE_FAILED, write_failed);
HT_SAME_CODE(HT_NO_SPACE, no_space);
HT_SAME_CODE(HT_ALREADY_EXISTS, already_exists);
HT_SAME_CODE(HT_NOT_REGULAR_FILE, not_regular_file);
HT_SAME_CODE(HT_CHANGED_UNDERFOOT, changed_underfoot);
HT_SAME_CODE(HT_TRUNCATED, truncated);
HT_SAME_CODE(HT_BAD_MAGIC, bad_magic);
HT_SAME_CODE(HT_BAD_VERSION, bad_version);
HT_SAME_CODE(HT_BAD_HEADER, bad_header);
HT_SAME_CODE(HT_HEADER_TOO_LARGE, header_too_large);
HT_SAME_CODE(HT_BAD_UTF8, bad_utf8);
HT_SAME_CODE(HT_DUPLICATE_KEY, duplicate_key);
HT_SAME_CODE(HT_DUPLICATE_TENSOR, duplicate_tensor);
HT_SAME_CODE(HT_BAD_NAME, bad_name);
HT_SAME_CODE(HT_BAD_DTYPE, bad_dtype);
HT_SAME_CODE(HT_UNSUPPORTED_ENCODING, unsupported_encoding);
HT_SAME_CODE(HT_BAD_SHAPE, bad_shape);
HT_SAME_CODE(HT_SIZE_OVERFLOW, size_overflow);
HT_SAME_CODE(HT_SIZE_MISMATCH, size_mismatch);
HT_SAME_CODE(HT_BAD_OFFSET, bad_offset);
HT_SAME_CODE(HT_OVERLAP, overlap);
HT_SAME_CODE(HT_GAP, gap);
HT_SAME_CODE(HT_MISALIGNED, misaligned);
HT_SAME_CODE(HT_TRAILING_BYTES, trailing_bytes);
HT_SAME_CODE(HT_MISSING_SHARD, missing_shard);
HT_SAME_CODE(HT_STALE_INDEX, stale_index);
HT_SAME_CODE(HT_PATH_ESCAPES, path_escapes);
HT_SAME_CODE(HT_NOT_FOUND, not_found);
HT_SAME_CODE(HT_DTYPE_MISMATCH, dtype_mismatch);
HT_SAME_CODE(HT_SHAPE_MISMATCH, shape_mismatch);
HT_SAME_CODE(HT_OUT_OF_BOUNDS, out_of_bounds);
HT_SAME_CODE(HT_CHECKSUM_MISMATCH, checksum_mismatch);
HT_SAME_CODE(HT_NOT_SEALED, not_sealed);
HT_SAME_CODE(HT_BAD_SEAL, bad_seal);
HT_SAME_CODE(HT_WOULD_LOSE, would_lose);
HT_SAME_CODE(HT_IN_USE, in_use);
HT_SAME_CODE(HT_STALE_HANDLE, stale_handle);
HT_SAME_CODE(HT_BAD_STATE, bad_state);
HT_SAME_CODE(HT_BUDGET_TOO_SMALL, budget_too_small);
HT_SAME_CODE(HT_OUT_OF_MEMORY, out_of_memory);
HT_SAME_CODE(HT_UNSUPPORTED_PLATFORM, unsupported_platform);
HT_SAME_CODE(HT_UNSUPPORTED_STRATEGY, unsupported_strategy);
HT_SAME_CODE(HT_DEVICE_UNAVAILABLE, device_unavailable);
HT_SAME_CODE(HT_NETWORK_FAILED, network_failed);
HT_SAME_CODE(HT_ACCESS_DENIED, access_denied);
HT_SAME_CODE(HT_CANCELLED, cancelled);
HT_SAME_CODE(HT_INTERNAL, internal);
static_assert(HT_INTERNAL == error_code_count);
#undef HT_SAME_CODE

static_assert(same(HT_BOOL, Bool::tag));
#define HT_SAME_DTYPE(D) static_assert(same(HT_##D, D::tag))
HT_SAME_DTYPE(I4);
HT_SAME_DTYPE(U4);
HT_SAME_DTYPE(I8);
HT_SAME_DTYPE(U8);
HT_SAME_DTYPE(I16);
HT_SAME_DTYPE(U16);
HT_SAME_DTYPE(I32);
HT_SAME_DTYPE(U32);
HT_SAME_DTYPE(I64);
HT_SAME_DTYPE(U64);
HT_SAME_DTYPE(F16);
HT_SAME_DTYPE(BF16);
HT_SAME_DTYPE(F32);
HT_SAME_DTYPE(F64);
HT_SAME_DTYPE(C64);
HT_SAME_DTYPE(F4);
HT_SAME_DTYPE(F6_E2M3);
HT_SAME_DTYPE(F6_E3M2);
HT_SAME_DTYPE(F8_E4M3);
HT_SAME_DTYPE(F8_E5M2);
HT_SAME_DTYPE(F8_E8M0);
HT_SAME_DTYPE(F8_E4M3FNUZ);
HT_SAME_DTYPE(F8_E5M2FNUZ);
static_assert(AllDTypes::size == HT_F8_E5M2FNUZ);
#undef HT_SAME_DTYPE

#define HT_SAME_ENCODING(E) static_assert(same(HT_##E, 256 + static_cast<int>(E::tag)))
HT_SAME_ENCODING(Q4_0);
HT_SAME_ENCODING(Q4_1);
HT_SAME_ENCODING(Q5_0);
HT_SAME_ENCODING(Q5_1);
HT_SAME_ENCODING(Q8_0);
HT_SAME_ENCODING(Q8_1);
HT_SAME_ENCODING(Q2_K);
HT_SAME_ENCODING(Q3_K);
HT_SAME_ENCODING(Q4_K);
HT_SAME_ENCODING(Q5_K);
HT_SAME_ENCODING(Q6_K);
HT_SAME_ENCODING(Q8_K);
HT_SAME_ENCODING(IQ2_XXS);
HT_SAME_ENCODING(IQ2_XS);
HT_SAME_ENCODING(IQ3_XXS);
HT_SAME_ENCODING(IQ1_S);
HT_SAME_ENCODING(IQ4_NL);
HT_SAME_ENCODING(IQ3_S);
HT_SAME_ENCODING(IQ2_S);
HT_SAME_ENCODING(IQ4_XS);
HT_SAME_ENCODING(IQ1_M);
HT_SAME_ENCODING(TQ1_0);
HT_SAME_ENCODING(TQ2_0);
HT_SAME_ENCODING(MXFP4);
HT_SAME_ENCODING(NVFP4);
HT_SAME_ENCODING(Q1_0);
HT_SAME_ENCODING(Q2_0);
static_assert(AllEncodings::size == 27);
#undef HT_SAME_ENCODING

static_assert(same(HT_VALUE_U8, MetaType::u8) && same(HT_VALUE_I8, MetaType::i8) &&
              same(HT_VALUE_U16, MetaType::u16) && same(HT_VALUE_I16, MetaType::i16) &&
              same(HT_VALUE_U32, MetaType::u32) && same(HT_VALUE_I32, MetaType::i32) &&
              same(HT_VALUE_F32, MetaType::f32) && same(HT_VALUE_BOOL, MetaType::boolean) &&
              same(HT_VALUE_STRING, MetaType::string) && same(HT_VALUE_ARRAY, MetaType::array) &&
              same(HT_VALUE_U64, MetaType::u64) && same(HT_VALUE_I64, MetaType::i64) &&
              same(HT_VALUE_F64, MetaType::f64));
static_assert(meta_type_count == 13);
static_assert(same(HT_FAULTS_GUARDED, FaultPolicy::guarded) && same(HT_FAULTS_OFF, FaultPolicy::off) &&
              same(HT_FAULTS_ZERO_FILL, FaultPolicy::zero_fill));
static_assert(same(HT_STRATEGY_AUTOMATIC, io::Strategy::Kind::automatic) &&
              same(HT_STRATEGY_MAPPED, io::Strategy::Kind::mapped) &&
              same(HT_STRATEGY_READ, io::Strategy::Kind::read) &&
              same(HT_STRATEGY_STAGED, io::Strategy::Kind::staged) &&
              same(HT_STRATEGY_EXTERNAL, io::Strategy::Kind::external));
static_assert(same(HT_RESIDENCE_UNBOUND, TensorResidency::Residence::unbound) &&
              same(HT_RESIDENCE_MAPPED, TensorResidency::Residence::mapped) &&
              same(HT_RESIDENCE_LOADING, TensorResidency::Residence::loading) &&
              same(HT_RESIDENCE_RESIDENT, TensorResidency::Residence::resident) &&
              same(HT_RESIDENCE_EVICTED, TensorResidency::Residence::evicted) &&
              same(HT_RESIDENCE_FAILED, TensorResidency::Residence::failed));
static_assert(same(HT_HASH_CRC64NVME, HashAlgorithm::crc64nvme) &&
              same(HT_HASH_XXH3_128, HashAlgorithm::xxh3_128) && same(HT_HASH_SHA256, HashAlgorithm::sha256));
static_assert(same(HT_VERDICT_INTACT, Verification::Verdict::intact) &&
              same(HT_VERDICT_HEADERS_MATCH, Verification::Verdict::headers_match) &&
              same(HT_VERDICT_DAMAGED, Verification::Verdict::damaged) &&
              same(HT_VERDICT_GROWN, Verification::Verdict::grown) &&
              same(HT_VERDICT_TRUNCATED, Verification::Verdict::truncated) &&
              same(HT_VERDICT_REPLACED, Verification::Verdict::replaced) &&
              same(HT_VERDICT_MISSING, Verification::Verdict::missing));
static_assert(same(HT_PART_HEADER, Verification::Part::header) &&
              same(HT_PART_TENSOR, Verification::Part::tensor) &&
              same(HT_PART_GAP, Verification::Part::gap) && same(HT_PART_TAIL, Verification::Part::tail));
static_assert(same(HT_LOSS_METADATA, Loss::Kind::metadata) &&
              same(HT_LOSS_RAW_BYTES, Loss::Kind::raw_bytes) && same(HT_LOSS_ROUNDING, Loss::Kind::rounding));
static_assert(same(HT_DIFFERENT_DTYPE, Differences::Kind::dtype) &&
              same(HT_DIFFERENT_SHAPE, Differences::Kind::shape) &&
              same(HT_DIFFERENT_CONTENTS, Differences::Kind::contents) &&
              same(HT_DIFFERENT_NOTE, Differences::Kind::note));
// HT_ROUND_NONE is 0, so the modes are one more than in C++.
static_assert(same(HT_ROUND_NEAREST_EVEN, 1 + static_cast<int>(Rounding::Mode::nearest_even)) &&
              same(HT_ROUND_TOWARD_ZERO, 1 + static_cast<int>(Rounding::Mode::toward_zero)) &&
              same(HT_ROUND_STOCHASTIC, 1 + static_cast<int>(Rounding::Mode::stochastic)));

// Callers have arrays of these structs, which have no `size` field. Their layout never changes.
static_assert(sizeof(ht_string) == 16 && sizeof(ht_value) == 32 && sizeof(ht_metadata_item) == 48 &&
              sizeof(ht_slice) == 24 && sizeof(ht_digest) == 40 && sizeof(ht_residency) == 32 &&
              sizeof(ht_rename) == 16 && sizeof(ht_type_rule) == 16 && sizeof(ht_metadata_edit) == 32);

// New fields are appended, so that older programs work with newer libraries.
static_assert(offsetof(ht_convert_options, empty_metadata) > offsetof(ht_convert_options, work));

}  // namespace
}  // namespace ht::htensor_h_test
