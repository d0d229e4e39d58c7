// H-Tensor for C and for every language that calls C: lists the tensors of model files from their headers;
// reads, decodes, verifies, converts and writes tensors. The header is C11 and also valid in C++. Link with
// `pkg-config --libs htensor-c`.
//
//   #include <htensor/htensor.h>
//   #include <stdio.h>
//
//   int main(int argc, char** argv) {
//     ht_error* error = NULL;
//     ht_model* model = NULL;
//     if (argc < 2) return 2;
//     if (ht_model_open(argv[1], NULL, &model, &error) != HT_OK) {         // reads only the header
//       fprintf(stderr, "%s\n", ht_error_text(error));
//       ht_error_free(error);
//       return 1;
//     }
//     ht_tensor_info info = {.size = sizeof info};
//     for (size_t i = 0; i < ht_model_count(model); ++i)                   // in file order, no allocation
//       if (ht_model_describe(model, i, &info, NULL) == HT_OK)
//         printf("%-8s %12llu %s\n", info.type_name, (unsigned long long)info.byte_size, info.name.data);
//     ht_model_free(model);
//   }
//
// Status. A function that can fail returns an `ht_status`. Its last argument `ht_error** error` may be NULL.
// On failure `*error` is a new object, which the caller releases with `ht_error_free`. On success `*error` is
// not written. Other outputs are written on success only. NULL for a required pointer is HT_BAD_STATE. The
// comment of a function lists the codes that are specific to it; every function may also return a general
// code, such as HT_OUT_OF_MEMORY or HT_READ_FAILED. The library keeps no error state per thread, and neither
// prints nor aborts.
//
// Ownership. A handle (ht_model, ht_tensor, ht_seal, ht_error, ht_cancel) belongs to the caller, and its own
// `_free` function accepts NULL. A tensor keeps its bytes alive and may outlive its model. A result
// (ht_load_report, ht_verification, ht_hashes, ht_diagnosis, ht_conversion_report, ht_differences,
// ht_edit_report) is a read-only struct; `ht_result_free` releases it with everything that it points to. Pass
// NULL for a result that is not needed; only ht_model_hash, ht_validate and ht_diff require the pointer. A
// pointer that a function returns belongs to the handle that was passed in, and is valid as long as that
// handle. The library uses arguments during the call only, unless the comment of the function says otherwise.
//
// Threads. Any function may be called on any thread, and many threads may use the same handle at once;
// `_free` must not run at the same time as another use of that handle. Callbacks run on the thread that
// called the function, except `release` of ht_model_open_bytes, which runs on the thread that frees the last
// handle or DLPack export. A callback must not call `longjmp` or throw.
//
// These rules apply to every function; its comment states ownership, threads and errors where they differ.
//
// Text. Strings are UTF-8 and end with NUL; paths are in the encoding of the operating system. Names of
// tensors and keys of metadata may contain NUL, so each is an `ht_string` with a size. In arguments, a size
// of 0 means that the text ends at its first NUL.
//
// Versions. If the first field of a struct is `size`, set it to the `sizeof` of the struct. A field of 0
// means its default; NULL for options means the default of every field. Later versions append fields: a
// smaller size leaves them at their defaults, and a nonzero field that this library does not know is
// HT_BAD_STATE. Later versions also append fields to results, so do not copy a result by value. Everything
// else is stable within a major version. A field of type `int` is a flag: 0 is false, any other value is
// true.
//
// Terms. A dense tensor stores its elements one by one. A block encoding, such as ggml's Q4_K, stores blocks
// of elements with shared scales. A splat repeats one pattern and has no bytes in the file. A set is a model
// in several files: its shards and, if it exists, their index. A seal is a file of checksums beside a model.
#ifndef HTENSOR_HTENSOR_H
#define HTENSOR_HTENSOR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HT_C_API __attribute__((visibility("default")))
#else
#define HT_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ht_model ht_model;    // an opened file, set of files or folder
typedef struct ht_tensor ht_tensor;  // a tensor of a model, or rows of one
typedef struct ht_seal ht_seal;      // the checksums of a model's files
typedef struct ht_error ht_error;    // why a call failed
typedef struct ht_cancel ht_cancel;  // lets one thread cancel the calls of another

// Defined in dlpack.h. Only a program that uses DLPack needs to include it.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

// Status and errors.

/// One code per kind of failure. Values never change; later versions add codes.
typedef enum ht_status {
  HT_OK = 0,
  HT_OPEN_FAILED = 1,
  HT_READ_FAILED = 2,
  HT_MAP_FAILED = 3,
  HT_UNMAP_FAILED = 4,
  HT_WRITE_FAILED = 5,
  HT_NO_SPACE = 6,
  HT_ALREADY_EXISTS = 7,
  HT_NOT_REGULAR_FILE = 8,
  HT_CHANGED_UNDERFOOT = 9,  // a file changed or was replaced while in use
  HT_TRUNCATED = 10,
  HT_BAD_MAGIC = 11,    // the format of the file is unknown
  HT_BAD_VERSION = 12,  // the version of the format or of DLPack is not supported
  HT_BAD_HEADER = 13,
  HT_HEADER_TOO_LARGE = 14,
  HT_BAD_UTF8 = 15,
  HT_DUPLICATE_KEY = 16,
  HT_DUPLICATE_TENSOR = 17,
  HT_BAD_NAME = 18,
  HT_BAD_DTYPE = 19,
  HT_UNSUPPORTED_ENCODING = 20,
  HT_BAD_SHAPE = 21,
  HT_SIZE_OVERFLOW = 22,
  HT_SIZE_MISMATCH = 23,
  HT_BAD_OFFSET = 24,
  HT_OVERLAP = 25,
  HT_GAP = 26,  // bytes between tensors, in a format without gaps
  HT_MISALIGNED = 27,
  HT_TRAILING_BYTES = 28,
  HT_MISSING_SHARD = 29,  // a file of the model is missing
  HT_STALE_INDEX = 30,    // an index and its files disagree
  HT_PATH_ESCAPES = 31,   // a path in a file leads out of the folder of the file
  HT_NOT_FOUND = 32,
  HT_DTYPE_MISMATCH = 33,
  HT_SHAPE_MISMATCH = 34,
  HT_OUT_OF_BOUNDS = 35,
  HT_CHECKSUM_MISMATCH = 36,
  HT_NOT_SEALED = 37,
  HT_BAD_SEAL = 38,      // the seal is damaged or belongs to another file
  HT_WOULD_LOSE = 39,    // values, types or metadata would be lost, which the options do not allow
  HT_IN_USE = 40,        // the memory or the file is in use
  HT_STALE_HANDLE = 41,  // not used by this version
  HT_BAD_STATE = 42,     // an invalid argument, or a call that the state of the object does not allow
  HT_BUDGET_TOO_SMALL = 43,
  HT_OUT_OF_MEMORY = 44,
  HT_UNSUPPORTED_PLATFORM = 45,
  HT_UNSUPPORTED_STRATEGY = 46,
  HT_DEVICE_UNAVAILABLE = 47,
  HT_NETWORK_FAILED = 48,  // not used by this version
  HT_ACCESS_DENIED = 49,   // not used by this version
  HT_CANCELLED = 50,
  HT_INTERNAL = 51
} ht_status;

/// The name of a code, such as "size_overflow"; "ok" for HT_OK and "unknown" for other numbers.
HT_C_API const char* ht_status_name(ht_status status);

// Facts about an error. Texts are never NULL, are empty if unknown, and belong to the error. An error is
// immutable. These functions accept NULL, which stands for HT_OK. If there is no memory for the texts of an
// error, they may be empty; its code is always set.

/// The kind of the error, for `switch`; equal to the status that the failed function returned.
HT_C_API ht_status ht_error_code(const ht_error* error);
/// The name of the broken rule, which stays the same between releases: "rank_is_at_most_8".
HT_C_API const char* ht_error_rule(const ht_error* error);
/// What is wrong, without the path.
HT_C_API const char* ht_error_message(const ht_error* error);
/// How to fix it, as an imperative.
HT_C_API const char* ht_error_hint(const ht_error* error);
/// The path of the file, as the caller passed it.
HT_C_API const char* ht_error_path(const ht_error* error);
/// The name of the tensor, truncated to 2000 bytes.
HT_C_API const char* ht_error_tensor(const ht_error* error);
/// The offset in the file where the error starts; -1 if unknown.
HT_C_API int64_t ht_error_offset(const ht_error* error);
/// The errno of the failed system call; 0 if no system call failed.
HT_C_API int ht_error_errno(const ht_error* error);
/// Path, message and code in one line: "model.ht: data ends at byte 640 but the file has 600 bytes
/// [truncated]".
HT_C_API const char* ht_error_text(const ht_error* error);
/// Releases the error and its texts. Errors in a result belong to the result: do not free them.
HT_C_API void ht_error_free(ht_error* error);

/// Releases a result and everything that it points to; accepts NULL. Handles have their own `_free`
/// functions. No other thread may use the result at the same time.
HT_C_API void ht_result_free(const void* result);

// Values that several functions share.

/// Text of `size` bytes, followed by NUL.
typedef struct ht_string {
  const char* data;
  size_t size;
} ht_string;

/// The type of a tensor's elements. The value of a dense dtype is its tag in `.ht` files; 192 to 255 are
/// user-defined dtypes. The value of a block encoding is 256 + ggml's type number.
typedef enum ht_type {
  HT_TYPE_UNKNOWN = 0,  // the file does not state a type
  HT_BOOL = 1,          // one byte per element
  HT_I4 = 2,            // packed, as all dtypes below 8 bits: element 0 is in the low bits of byte 0
  HT_U4 = 3,
  HT_I8 = 4,
  HT_U8 = 5,
  HT_I16 = 6,
  HT_U16 = 7,
  HT_I32 = 8,
  HT_U32 = 9,
  HT_I64 = 10,
  HT_U64 = 11,
  HT_F16 = 12,
  HT_BF16 = 13,
  HT_F32 = 14,
  HT_F64 = 15,
  HT_C64 = 16,
  HT_F4 = 17,
  HT_F6_E2M3 = 18,
  HT_F6_E3M2 = 19,
  HT_F8_E4M3 = 20,
  HT_F8_E5M2 = 21,
  HT_F8_E8M0 = 22,
  HT_F8_E4M3FNUZ = 23,
  HT_F8_E5M2FNUZ = 24,
  HT_Q4_0 = 256 + 2,
  HT_Q4_1 = 256 + 3,
  HT_Q5_0 = 256 + 6,
  HT_Q5_1 = 256 + 7,
  HT_Q8_0 = 256 + 8,
  HT_Q8_1 = 256 + 9,
  HT_Q2_K = 256 + 10,
  HT_Q3_K = 256 + 11,
  HT_Q4_K = 256 + 12,
  HT_Q5_K = 256 + 13,
  HT_Q6_K = 256 + 14,
  HT_Q8_K = 256 + 15,
  HT_IQ2_XXS = 256 + 16,
  HT_IQ2_XS = 256 + 17,
  HT_IQ3_XXS = 256 + 18,
  HT_IQ1_S = 256 + 19,
  HT_IQ4_NL = 256 + 20,
  HT_IQ3_S = 256 + 21,
  HT_IQ2_S = 256 + 22,
  HT_IQ4_XS = 256 + 23,
  HT_IQ1_M = 256 + 29,
  HT_TQ1_0 = 256 + 34,
  HT_TQ2_0 = 256 + 35,
  HT_MXFP4 = 256 + 39,
  HT_NVFP4 = 256 + 40,
  HT_Q1_0 = 256 + 41,
  HT_Q2_0 = 256 + 42
} ht_type;

/// The name of a type of the library, as in safetensors and ggml: "BF16", "Q4_K". "" for other numbers.
HT_C_API const char* ht_type_name(ht_type type);
/// The type with that name; HT_TYPE_UNKNOWN if the library has no such type.
HT_C_API ht_type ht_type_from_name(const char* name);

/// Selects tensors by name. A name is selected if it matches an `include` pattern, or there are no `include`
/// patterns, and it matches no `exclude` pattern. Patterns are as in shells: * ? [a-z] [!a-z] {a,b} and \x.
typedef struct ht_filter {
  size_t size;
  const char* const* include;
  size_t include_count;
  const char* const* exclude;
  size_t exclude_count;
} ht_filter;

/// The progress of a long call.
typedef struct ht_progress {
  size_t size;
  uint64_t done_bytes;
  uint64_t total_bytes;
  double seconds;  // since the start
} ht_progress;

/// Progress and cancellation of a long call. A cancelled call returns HT_CANCELLED and leaves no partial
/// file.
typedef struct ht_work {
  size_t size;
  /// Called with `context` on the caller's thread, repeatedly and once more when all work is done. A nonzero
  /// return value cancels the work. May be NULL.
  int (*progress)(void* context, const ht_progress* progress);
  void* context;
  /// Lets another thread cancel the call, also while the call waits in fsync. Must outlive the call. May be
  /// NULL.
  const ht_cancel* cancel;
} ht_work;

/// Creates an object that cancels calls; many calls may name it in their `ht_work`. The caller releases it
/// with `ht_cancel_free`. NULL if out of memory.
HT_C_API ht_cancel* ht_cancel_create(void);
/// Cancels all current and later calls that name the object. May be called on any thread, but not in a signal
/// handler.
HT_C_API void ht_cancel_request(ht_cancel* cancel);
/// Releases the object. All calls that name it must have returned.
HT_C_API void ht_cancel_free(ht_cancel* cancel);

// The library.

#define HT_VERSION_MAJOR 0
#define HT_VERSION_MINOR 1
#define HT_VERSION_PATCH 0

/// The version of the library in use, "0.1.0", which may be newer than this header.
HT_C_API const char* ht_version(void);
/// The CPU features in use beyond the baseline, separated by spaces: "avx2 vpclmulqdq"; "" if there are none.
HT_C_API const char* ht_cpu_features(void);

/// The CRC-64/NVME of `bytes` bytes; `data` may be NULL if `bytes` is 0. `before` is the checksum of the
/// preceding bytes, 0 at the start. The checksum of "123456789" is 0xae8b14860a799888.
HT_C_API uint64_t ht_crc64nvme(const void* data, size_t bytes, uint64_t before);
/// The checksum of two consecutive pieces, from the checksum of each and the size of the second.
HT_C_API uint64_t ht_crc64nvme_combine(uint64_t first, uint64_t second, uint64_t second_bytes);

// Open a model.

/// The effect of an access to a page of a mapped file that cannot be read, because the file was truncated or
/// its disk or network has failed.
typedef enum ht_faults {
  HT_FAULTS_GUARDED = 0,   // an error in functions of this header and in ht_guard; elsewhere SIGBUS
  HT_FAULTS_OFF = 1,       // an error in functions that take a model or a tensor, which read by system
                           // calls; elsewhere SIGBUS, also in ht_guard: no signal handler is installed
  HT_FAULTS_ZERO_FILL = 2  // as guarded, but elsewhere such pages read as zeros: see ht_model_fault
} ht_faults;

typedef struct ht_open_options {
  size_t size;
  ht_faults faults;
  /// Also opens an incomplete file: all tensors are listed, and missing bytes are an error when they are
  /// read.
  int allow_incomplete;
  /// Reads only the headers and keeps no file open; reading a tensor is HT_BAD_STATE.
  int catalog_only;
  /// The maximum size of a header or an index in bytes; 0 is the limit of the format.
  uint64_t max_header_bytes;
} ht_open_options;

/// Opens a file of any format, the index of a sharded model, a part of a split GGUF, or a folder with one
/// model. Reads headers only; files are mapped on first use. The caller frees `*model`.
HT_C_API ht_status ht_model_open(const char* path, const ht_open_options* options, ht_model** model,
                                 ht_error** error);
/// Opens several models as one, in this order, to convert them into one. HT_DUPLICATE_TENSOR,
/// HT_DUPLICATE_KEY, HT_BAD_STATE if `path_count` is 0.
HT_C_API ht_status ht_model_open_merged(const char* const* paths, size_t path_count,
                                        const ht_open_options* options, ht_model** model, ht_error** error);
/// Opens a file in memory, without a copy. The bytes must not change until the library calls
/// `release(context)`. It does so exactly once: on the thread that frees the last handle or DLPack export of
/// the model and its tensors or, if this function fails, before it returns. `release` may be NULL.
HT_C_API ht_status ht_model_open_bytes(const void* data, size_t bytes, void (*release)(void* context),
                                       void* context, const ht_open_options* options, ht_model** model,
                                       ht_error** error);
/// Opens the file of a descriptor. The library duplicates the descriptor, so the caller may close its own.
HT_C_API ht_status ht_model_open_fd(int fd, const ht_open_options* options, ht_model** model,
                                    ht_error** error);
/// Releases the model. Its tensors, their bytes and DLPack exports stay valid.
HT_C_API void ht_model_free(ht_model* model);

/// The name of the format: "safetensors", "gguf", "irpa", "ht", "npy".
HT_C_API const char* ht_model_format(const ht_model* model);
/// The number of files that contain tensors.
HT_C_API size_t ht_model_file_count(const ht_model* model);
/// The path of the file at `index`; NULL if `index` is not less than ht_model_file_count.
HT_C_API const char* ht_model_file(const ht_model* model, size_t index);

/// Returns the error of the first unreadable page that was replaced by zeros, even if ht_guard or another
/// function has since replaced the zeros by the page of the file; HT_OK if no page was replaced. With
/// HT_FAULTS_ZERO_FILL, call ht_model_fault after a computation on bytes in place, and discard the results of
/// the computation if ht_model_fault returns an error.
HT_C_API ht_status ht_model_fault(const ht_model* model, ht_error** error);
/// Calls `body(context)`, which reads `bytes` bytes at `data` in place. If a page of these bytes cannot be
/// read, the function returns an error and the process gets no SIGBUS; `body` still runs to its end and reads
/// zeros in that page.
HT_C_API ht_status ht_guard(const void* data, size_t bytes, void (*body)(void* context), void* context,
                            ht_error** error);

// List tensors.

/// Facts about a tensor. Pointers are valid as long as the model or one of its tensors exists.
typedef struct ht_tensor_info {
  size_t size;
  ht_string name;
  /// The position of the tensor in its model.
  size_t index;
  ht_type type;
  /// "BF16", "Q4_K"; "" if the file does not state a type.
  const char* type_name;
  /// The width of an element in bits; 0 for blocks and unknown types.
  uint32_t bits;
  /// Elements and bytes of a block; 1 and 0 unless `type` is a block encoding.
  uint32_t block_elements;
  uint32_t block_bytes;
  /// The dimensions, outermost first. A scalar and a tensor of unknown type have rank 0.
  uint32_t rank;
  const int64_t* dims;
  /// The first dimension is contiguous instead of the last.
  int is_column_major;
  int is_big_endian;
  /// The stored bytes equal the output of ht_tensor_copy_to: not a splat, row-major, little-endian.
  int is_plain;
  /// The size of all elements as stored; a splat counts as if expanded.
  uint64_t byte_size;
  /// The position of the bytes: the path and the index of the file, and the offset in the file. For a splat,
  /// NULL, 0 and 0.
  const char* file;
  size_t file_index;
  uint64_t offset;
  /// A splat has no bytes in a file: it repeats this pattern. NULL and 0 for other tensors.
  int is_splat;
  const void* splat;
  size_t splat_bytes;
  /// The text that an IRPA file stores with the tensor, verbatim. Empty if the library would write the same
  /// text for `type` and `dims`, and for other formats.
  ht_string note;
} ht_tensor_info;

/// The number of tensors.
HT_C_API size_t ht_model_count(const ht_model* model);
/// Fills in the facts about the tensor at `index`; tensors are in file order. Allocates no memory.
/// HT_OUT_OF_BOUNDS.
HT_C_API ht_status ht_model_describe(const ht_model* model, size_t index, ht_tensor_info* info,
                                     ht_error** error);
/// Returns 1 and writes the index of the tensor with that name; returns 0 if there is none. Takes constant
/// time.
HT_C_API int ht_model_find(const ht_model* model, const char* name, size_t name_size, size_t* index);
/// Creates a handle to the tensor with that name; the caller frees it. HT_NOT_FOUND, with the most similar
/// name.
HT_C_API ht_status ht_model_get(const ht_model* model, const char* name, size_t name_size, ht_tensor** tensor,
                                ht_error** error);
/// The same by index. HT_OUT_OF_BOUNDS.
HT_C_API ht_status ht_model_at(const ht_model* model, size_t index, ht_tensor** tensor, ht_error** error);
/// Creates a handle to the rows [begin, end) of the outermost dimension; it shares the bytes, and the caller
/// frees it. HT_OUT_OF_BOUNDS, HT_BAD_SHAPE for a scalar, HT_MISALIGNED if the rows do not begin at a byte
/// boundary or are not whole blocks: use ht_tensor_read.
HT_C_API ht_status ht_tensor_rows(const ht_tensor* tensor, int64_t begin, int64_t end, ht_tensor** rows,
                                  ht_error** error);
/// Releases the tensor. Pointers from ht_tensor_data and ht_tensor_private_data become invalid; DLPack
/// exports stay valid.
HT_C_API void ht_tensor_free(ht_tensor* tensor);

/// Fills in the facts about the tensor of a handle. For a handle to rows, `dims`, `byte_size` and `offset`
/// describe the rows, and `dims` is valid as long as the handle.
HT_C_API ht_status ht_tensor_describe(const ht_tensor* tensor, ht_tensor_info* info, ht_error** error);
/// Writes the strides in elements: element (i, j) is i × strides[0] + j × strides[1] elements after the
/// first. All 0 for a splat. `rank` must be the rank of the tensor. HT_UNSUPPORTED_ENCODING for blocks and
/// unknown types.
HT_C_API ht_status ht_tensor_strides(const ht_tensor* tensor, int64_t* strides, size_t rank,
                                     ht_error** error);

// Metadata.

/// GGUF's value types, with GGUF's numbers.
typedef enum ht_value_type {
  HT_VALUE_U8 = 0,
  HT_VALUE_I8 = 1,
  HT_VALUE_U16 = 2,
  HT_VALUE_I16 = 3,
  HT_VALUE_U32 = 4,
  HT_VALUE_I32 = 5,
  HT_VALUE_F32 = 6,
  HT_VALUE_BOOL = 7,
  HT_VALUE_STRING = 8,
  HT_VALUE_ARRAY = 9,
  HT_VALUE_U64 = 10,
  HT_VALUE_I64 = 11,
  HT_VALUE_F64 = 12
} ht_value_type;

/// A value. Its type selects the member of `as`: `u64` for U8 to U64 and BOOL (0 or 1), `i64` for I8 to I64,
/// `f64` for F32 and F64, `text` for STRING, `items` for ARRAY.
typedef struct ht_value {
  ht_value_type type;
  ht_value_type item_type;  // of an array
  uint64_t count;           // items of an array
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
    ht_string text;
    /// An array of `count` items of the C type that `item_type` names: uint8_t for U8 and BOOL, int32_t for
    /// I32, float for F32, …; ht_string for STRING, ht_value for ARRAY.
    const void* items;
  } as;
} ht_value;

/// A key and its value.
typedef struct ht_metadata_item {
  ht_string key;
  ht_value value;
} ht_metadata_item;

/// The number of keys. The key `htensor.pad`, whose spaces ht_edit_metadata reserves for later edits of a
/// GGUF header, is neither counted nor listed.
HT_C_API size_t ht_model_metadata_count(const ht_model* model);
/// Returns the key and the value at `index`, in file order. `*item` belongs to the model. The first call for
/// a text or an array copies it into the model. HT_OUT_OF_BOUNDS, HT_OUT_OF_MEMORY.
HT_C_API ht_status ht_model_metadata_at(const ht_model* model, size_t index, const ht_metadata_item** item,
                                        ht_error** error);
/// The same by key, in constant time. HT_NOT_FOUND.
HT_C_API ht_status ht_model_metadata_get(const ht_model* model, const char* key, size_t key_size,
                                         const ht_metadata_item** item, ht_error** error);

// Read a tensor.

/// Returns the stored bytes in place, valid as long as `tensor`. ht_faults describes the effect of an access
/// to an unreadable page. HT_UNSUPPORTED_ENCODING for a splat and for rows of a column-major tensor,
/// HT_TRUNCATED, HT_MISSING_SHARD.
HT_C_API ht_status ht_tensor_data(const ht_tensor* tensor, const void** data, size_t* bytes,
                                  ht_error** error);
/// Returns the stored bytes in writable memory, valid as long as `tensor`: private pages of the file, which
/// the system copies when they are written. Writes are visible through all such pointers into this model, but
/// never in the file, nor to other functions. After a load with HT_STRATEGY_READ, the result is the model's
/// own memory instead, and all functions see the writes. The library does not synchronize writes of several
/// threads. HT_CHANGED_UNDERFOOT if the file was truncated; else the errors of ht_tensor_data.
HT_C_API ht_status ht_tensor_private_data(const ht_tensor* tensor, void** data, size_t* bytes,
                                          ht_error** error);
/// Writes `bytes` bytes of the tensor in row-major little-endian form to `out`, from byte `begin` of that
/// form on. Splats are expanded, blocks are not decoded. HT_OUT_OF_BOUNDS.
HT_C_API ht_status ht_tensor_copy_to(const ht_tensor* tensor, uint64_t begin, void* out, size_t bytes,
                                     ht_error** error);

/// The elements `start`, `start + step`, … before `stop` of a dimension. Negative positions do not count from
/// the end: with a negative step, a `stop` of -1 includes position 0. A `step` of 0 means 1.
typedef struct ht_slice {
  int64_t start;
  int64_t stop;
  int64_t step;
} ht_slice;

/// The treatment of values that the requested type does not hold.
typedef enum ht_rounding {
  HT_ROUND_NONE = 0,          // HT_WOULD_LOSE unless the requested type holds every value of the stored type
  HT_ROUND_NEAREST_EVEN = 1,  // to the nearest value, ties to even
  HT_ROUND_TOWARD_ZERO = 2,
  HT_ROUND_STOCHASTIC = 3  // to a neighbour, at random by `seed` and the element's index
} ht_rounding;

typedef struct ht_read_options {
  size_t size;
  /// The dtype to write; HT_TYPE_UNKNOWN keeps the stored type. For a dtype, blocks are decoded to F32, and
  /// the F32 values are converted to the dtype.
  ht_type type;
  ht_rounding rounding;
  /// Values beyond the largest finite one become the largest finite one.
  int saturate;
  /// The seed of HT_ROUND_STOCHASTIC.
  uint64_t seed;
  /// Writes each 4- or 6-bit element, as stored, into the low bits of its own byte. `type` must not name
  /// another type.
  int unpack;
  const ht_work* work;
} ht_read_options;

/// Writes the selected elements to `out`: dense, row-major, native byte order. `slices` has one entry per
/// dimension, or is NULL for all elements. Reads only the selected elements, or the blocks that contain them,
/// on all processors. HT_SIZE_MISMATCH unless `bytes` is the size of the result. HT_OUT_OF_BOUNDS,
/// HT_WOULD_LOSE, HT_UNSUPPORTED_ENCODING for blocks as stored unless whole blocks are selected.
HT_C_API ht_status ht_tensor_read(const ht_tensor* tensor, const ht_slice* slices, size_t slice_count,
                                  const ht_read_options* options, void* out, size_t bytes, ht_error** error);
/// Writes the selected values as F32. `count` must be the number of selected values. HT_WOULD_LOSE unless F32
/// holds every value of the stored type; other errors as for ht_tensor_read.
HT_C_API ht_status ht_tensor_read_f32(const ht_tensor* tensor, const ht_slice* slices, size_t slice_count,
                                      float* out, size_t count, ht_error** error);
/// The same as F64, but I64 and U64 are rounded.
HT_C_API ht_status ht_tensor_read_f64(const ht_tensor* tensor, const ht_slice* slices, size_t slice_count,
                                      double* out, size_t count, ht_error** error);
/// Writes one element as F64. `index` has `rank` indices, one per dimension. HT_OUT_OF_BOUNDS,
/// HT_UNSUPPORTED_ENCODING for complex numbers.
HT_C_API ht_status ht_tensor_value(const ht_tensor* tensor, const int64_t* index, size_t rank, double* value,
                                   ht_error** error);

/// `count` is the number of all elements, including NaNs and infinities. The fields from `min` on describe
/// the finite values. Without finite values, `min`, `max`, `mean` and `standard_deviation` are NaN.
typedef struct ht_statistics {
  size_t size;
  uint64_t count;
  uint64_t zeros;
  uint64_t subnormals;
  uint64_t nans;
  uint64_t infinities;
  double min;
  double max;
  uint64_t argmin;  // row-major index of the first `min`
  uint64_t argmax;
  double sum;
  double mean;
  double standard_deviation;  // of the population
  double norm;                // Euclidean
} ht_statistics;

/// Computes the statistics of all elements in one pass, on all processors. HT_UNSUPPORTED_ENCODING for
/// complex numbers and unknown types. `work` may be NULL.
HT_C_API ht_status ht_tensor_statistics(const ht_tensor* tensor, const ht_work* work,
                                        ht_statistics* statistics, ht_error** error);

// DLPack.

/// The memory of an exported tensor.
typedef enum ht_access {
  HT_ACCESS_READ_ONLY = 0,  // in place; the consumer must not write
  HT_ACCESS_PRIVATE = 1,    // in place and writable, as ht_tensor_private_data
  HT_ACCESS_COPY = 2        // new memory: row-major, native byte order
} ht_access;

/// Exports a dense tensor on the CPU. `*managed` shares ownership of the bytes; its consumer calls the
/// deleter, from any thread. Only the versioned form states that a tensor is read-only.
/// HT_UNSUPPORTED_ENCODING for blocks and for dtypes that DLPack lacks; also for splats and big-endian
/// elements in place. HT_MISALIGNED, and the errors of ht_tensor_private_data for HT_ACCESS_PRIVATE.
HT_C_API ht_status ht_tensor_to_dlpack(const ht_tensor* tensor, ht_access access,
                                       struct DLManagedTensor** managed, ht_error** error);
/// The same in the versioned form, DLPack 1.1, which also has I4, U4 and floats of at most 8 bits.
HT_C_API ht_status ht_tensor_to_dlpack_versioned(const ht_tensor* tensor, ht_access access,
                                                 struct DLManagedTensorVersioned** managed, ht_error** error);
/// The same with HT_ACCESS_COPY, with progress and cancellation of the copy. `work` may be NULL.
HT_C_API ht_status ht_tensor_copy_to_dlpack(const ht_tensor* tensor, const ht_work* work,
                                            struct DLManagedTensor** managed, ht_error** error);
/// The same in the versioned form.
HT_C_API ht_status ht_tensor_copy_to_dlpack_versioned(const ht_tensor* tensor, const ht_work* work,
                                                      struct DLManagedTensorVersioned** managed,
                                                      ht_error** error);
// To import a tensor, see ht_from_dlpack.

// Load.

/// The memory into which a load brings the bytes of tensors.
typedef enum ht_strategy {
  HT_STRATEGY_AUTOMATIC = 0,  // the library chooses from facts about the files and the machine
  HT_STRATEGY_MAPPED = 1,     // brings pages of the files into the page cache
  HT_STRATEGY_READ = 2,       // reads into the model's own memory, independent of the files
  HT_STRATEGY_STAGED = 3,     // a ring of buffers: for ht_model_stream
  HT_STRATEGY_EXTERNAL = 4    // the caller's memory: for ht_model_load_into
} ht_strategy;

typedef struct ht_load_options {
  size_t size;
  ht_strategy strategy;
  const ht_filter* filter;
  /// The memory limit; 0 is 7/8 of the available memory.
  uint64_t budget_bytes;
  /// Reads in flight, 1 to 64, and the bytes of each, a multiple of 4096; 0 is 8 reads of 2 MiB.
  uint32_t chunks;
  uint64_t chunk_bytes;
  /// Compares every byte with the seal, or with the checksum in the file, while it is loaded.
  int verify;
  /// Drops the files from the page cache afterwards.
  int drop_after;
  const ht_work* work;
} ht_load_options;

/// The result of a load.
typedef struct ht_load_report {
  ht_strategy strategy;        // the one that was used
  const char* code;            // the reason for the strategy, for programs
  const char* reason;          // the reason and the speed, for people
  uint64_t requested_bytes;    // stored bytes of the requested tensors
  uint64_t bytes;              // loaded by this call
  uint64_t resident_bytes;     // of `requested_bytes`, in the model's own memory before; not loaded again
  uint64_t cached_bytes;       // of `bytes`, in the page cache before this call; UINT64_MAX if unknown
  uint64_t streamed_bytes;     // equal to `bytes` if they were streamed and not kept in memory, else 0
  uint64_t direct_bytes;       // of `bytes`, by direct I/O
  uint64_t verified_bytes;     // compared with their checksums
  uint64_t peak_memory_bytes;  // of the process; UINT64_MAX if unknown
  double seconds;
} ht_load_report;

/// Brings all matching tensors into memory. After HT_STRATEGY_READ, new tensor handles refer to the model's
/// own memory. HT_NOT_FOUND if a filter matches no tensor, HT_BUDGET_TOO_SMALL, HT_CHECKSUM_MISMATCH,
/// HT_NOT_SEALED. A failed load can be repeated.
HT_C_API ht_status ht_model_load(const ht_model* model, const ht_load_options* options,
                                 const ht_load_report** loaded, ht_error** error);
/// Passes the stored bytes of each matching tensor once to `consume`, in file order; bytes that two tensors
/// share are passed for both, and a splat has no stored bytes. `index` is the position of the tensor in the
/// model, `offset` the position of `data` in the tensor. `data` is valid during the callback. A nonzero
/// return value of `consume` ends the stream with HT_CANCELLED.
HT_C_API ht_status ht_model_stream(const ht_model* model,
                                   int (*consume)(void* context, size_t index, uint64_t offset,
                                                  const void* data, size_t bytes),
                                   void* context, const ht_load_options* options,
                                   const ht_load_report** loaded, ht_error** error);
/// Reads stored bytes into the caller's memory; splats are expanded. `place` is called once per matching
/// tensor. It returns memory of `info->byte_size` bytes, or NULL to skip the tensor. HT_OVERLAP if the memory
/// of two tensors overlaps, HT_NOT_FOUND if no tensor matches.
HT_C_API ht_status ht_model_load_into(const ht_model* model,
                                      void* (*place)(void* context, const ht_tensor_info* info),
                                      void* context, const ht_load_options* options,
                                      const ht_load_report** loaded, ht_error** error);

/// Brings matching tensors into memory. `*bytes` becomes their total size in the files; tensors in the
/// model's own memory do not count. `filter`, `work` and `bytes` may be NULL. HT_NOT_FOUND if no tensor
/// matches.
HT_C_API ht_status ht_model_prefetch(const ht_model* model, const ht_filter* filter, const ht_work* work,
                                     uint64_t* bytes, ht_error** error);
/// Drops matching tensors from memory and from the page cache. `*bytes` becomes their total size. The tensors
/// stay usable and are read from disk again. HT_IN_USE if a tensor handle still owns memory of
/// HT_STRATEGY_READ; all other tensors are dropped. HT_NOT_FOUND.
HT_C_API ht_status ht_model_evict(const ht_model* model, const ht_filter* filter, uint64_t* bytes,
                                  ht_error** error);

/// The place where the bytes of a tensor are.
typedef enum ht_residence {
  HT_RESIDENCE_UNBOUND = 0,   // its file is missing, incomplete or not mapped yet
  HT_RESIDENCE_MAPPED = 1,    // its file is mapped: pages are read on first access
  HT_RESIDENCE_LOADING = 2,   // a load is in progress
  HT_RESIDENCE_RESIDENT = 3,  // in the model's own memory
  HT_RESIDENCE_EVICTED = 4,   // no longer resident
  HT_RESIDENCE_FAILED = 5     // the last load failed
} ht_residence;

typedef struct ht_residency {
  ht_residence residence;
  uint64_t bytes;           // of the tensor
  uint64_t cached_bytes;    // in the page cache; UINT64_MAX if the kernel does not report it
  uint64_t resident_bytes;  // in the model's own memory
} ht_residency;

/// Writes the residency of `count` tensors, from index `first` on, to the caller's array. Each call queries
/// the page cache once per file, so query all tensors in one call. HT_OUT_OF_BOUNDS.
HT_C_API ht_status ht_model_residency(const ht_model* model, size_t first, size_t count,
                                      ht_residency* residency, ht_error** error);

// Seal, verify, hash, validate.

typedef enum ht_hash {
  HT_HASH_DEFAULT = 0,  // CRC-64/NVME
  HT_HASH_CRC64NVME = 1,
  HT_HASH_XXH3_128 = 2,
  HT_HASH_SHA256 = 3
} ht_hash;

/// A digest in the byte order that common tools print.
typedef struct ht_digest {
  ht_hash algorithm;
  uint32_t bytes;  // 8, 16 or 32
  uint8_t data[32];
} ht_digest;

/// Writes the digest in lower-case hexadecimal, with NUL.
HT_C_API void ht_digest_hex(const ht_digest* digest, char out[65]);

/// Options of ht_model_seal and ht_model_hash.
typedef struct ht_hash_options {
  size_t size;
  ht_hash algorithm;
  /// ht_model_hash: also hashes each tensor.
  int per_tensor;
  /// ht_model_seal: replaces a seal that the files do not match.
  int force;
  /// The maximum size of a splat for XXH3 and SHA-256; 0 is 1 GiB. HT_BUDGET_TOO_SMALL for a larger splat.
  /// CRC-64/NVME has no limit.
  uint64_t max_splat_bytes;
  const ht_work* work;
} ht_hash_options;

/// Writes checksums of every byte of the model to `FILE.htseal` beside the file, or beside part 1 of a split
/// GGUF. For a shard index, the seal is `model.htseal` beside the index; for a model that is a folder,
/// `model.htseal` inside this folder. HT_CHECKSUM_MISMATCH if the files do not match an existing seal. `seal`
/// may be NULL; otherwise the caller frees `*seal`.
HT_C_API ht_status ht_model_seal(const ht_model* model, const ht_hash_options* options, ht_seal** seal,
                                 ht_error** error);
/// Reads the seal of the model at `path`, or the seal itself if `path` ends in ".htseal". HT_NOT_SEALED,
/// HT_BAD_SEAL.
HT_C_API ht_status ht_seal_read(const char* path, ht_seal** seal, ht_error** error);
/// Releases the seal in memory; its file stays.
HT_C_API void ht_seal_free(ht_seal* seal);

typedef struct ht_seal_info {
  size_t size;
  const char* path;
  ht_digest digest;  // of the file; for several files, of their digests
  uint64_t bytes;    // of all files
  size_t file_count;
  size_t tensor_count;
} ht_seal_info;

/// A file or a tensor in a seal. The digest of a tensor covers its bytes alone, so it is equal in every
/// format.
typedef struct ht_seal_entry {
  size_t size;
  ht_string name;  // a file is named relative to the seal
  ht_digest digest;
  uint64_t bytes;
  uint64_t offset;    // of a tensor in its file
  size_t file_index;  // of a tensor; SIZE_MAX for a splat
} ht_seal_entry;

/// Fills in facts about the seal. Texts belong to the seal.
HT_C_API ht_status ht_seal_describe(const ht_seal* seal, ht_seal_info* info, ht_error** error);
/// The same about the file at `index`. HT_OUT_OF_BOUNDS.
HT_C_API ht_status ht_seal_file(const ht_seal* seal, size_t index, ht_seal_entry* entry, ht_error** error);
/// The same about the tensor at `index`. HT_OUT_OF_BOUNDS.
HT_C_API ht_status ht_seal_tensor(const ht_seal* seal, size_t index, ht_seal_entry* entry, ht_error** error);

typedef struct ht_verify_options {
  size_t size;
  /// Reads headers, gaps and sizes only: milliseconds for files of any size.
  int quick;
  uint64_t max_header_bytes;
  const ht_work* work;
} ht_verify_options;

typedef enum ht_verdict {
  HT_VERDICT_INTACT = 0,         // every byte was read and matches
  HT_VERDICT_HEADERS_MATCH = 1,  // headers and sizes match; data was not read
  HT_VERDICT_DAMAGED = 2,        // bytes differ
  HT_VERDICT_GROWN = 3,          // bytes follow the recorded end of the file
  HT_VERDICT_TRUNCATED = 4,      // bytes are missing at the end
  HT_VERDICT_REPLACED = 5,       // every chunk of a file differs
  HT_VERDICT_MISSING = 6         // a file of the set does not exist
} ht_verdict;

typedef enum ht_file_part {
  HT_PART_HEADER = 0,  // from the start of the file to the first tensor
  HT_PART_TENSOR = 1,  // bytes of a tensor
  HT_PART_GAP = 2,     // between tensors; without a seal, between the header and the data of a `.ht` file
  HT_PART_TAIL = 3     // after the last tensor, or after the recorded end of the file
} ht_file_part;

/// Bytes that differ from the seal: whole chunks of up to 4 MiB, so some of them may be good.
typedef struct ht_bad_range {
  const char* file;
  ht_file_part part;
  ht_string tensor;  // empty unless `part` is HT_PART_TENSOR
  uint64_t offset;
  uint64_t bytes;
} ht_bad_range;

typedef struct ht_verification {
  int ok;  // the verdict is HT_VERDICT_INTACT or HT_VERDICT_HEADERS_MATCH
  ht_verdict verdict;
  uint64_t checked_bytes;
  ht_hash algorithm;
  const char* seal;  // NULL if the file's own checksum was used
  const ht_bad_range* const* bad;
  size_t bad_count;
  const ht_error* damage;  // describes the bad ranges as the error of ht_model_verify does; NULL if `ok`
} ht_verification;

/// Compares the files of a model with their seal, or a `.ht` file with its own checksum, on all processors.
/// Files that no longer parse can be compared too. HT_OK means that the comparison is complete; its result is
/// `(*verification)->ok`. HT_NOT_SEALED, HT_BAD_SEAL.
HT_C_API ht_status ht_verify(const char* path, const ht_verify_options* options,
                             const ht_verification** verification, ht_error** error);
/// The same for the open files of a model, but damage is an error that names the first bad tensor:
/// HT_CHECKSUM_MISMATCH, HT_TRUNCATED, HT_TRAILING_BYTES, HT_MISSING_SHARD.
HT_C_API ht_status ht_model_verify(const ht_model* model, const ht_verify_options* options, ht_error** error);
/// Compares the bytes of one tensor with the seal of its file, or with the checksum in a `.ht` file. For a
/// handle to rows (ht_tensor_rows), compares the whole tensor. For a splat, compares all bytes outside of
/// tensors, in all files of the model, because a header has its pattern. Reads the seal in each call.
/// HT_CHECKSUM_MISMATCH, HT_NOT_SEALED, HT_BAD_SEAL.
HT_C_API ht_status ht_tensor_verify(const ht_tensor* tensor, ht_error** error);
/// The same with progress and cancellation. `work` may be NULL.
HT_C_API ht_status ht_tensor_verify_with_work(const ht_tensor* tensor, const ht_work* work, ht_error** error);

typedef struct ht_hashes {
  ht_digest digest;               // of the file; for several files, of their digests
  const char* const* files;       // the paths
  const ht_digest* file_digests;  // of each file, in the order of `files`
  size_t file_count;
  const ht_digest* tensors;  // in the order of the model; NULL unless `per_tensor`
  size_t tensor_count;
} ht_hashes;

/// Computes the digests that a seal would contain. HT_READ_FAILED, HT_CANCELLED, HT_UNSUPPORTED_PLATFORM for
/// SHA-256 without OpenSSL.
HT_C_API ht_status ht_model_hash(const ht_model* model, const ht_hash_options* options,
                                 const ht_hashes** hashes, ht_error** error);

typedef struct ht_diagnosis {
  const char* format;               // "" if unknown
  int readable;                     // whether ht_model_open accepts the path
  const ht_error* const* problems;  // released with the diagnosis
  size_t problem_count;
  const ht_error* const* warnings;  // allowed by the format, but other programs may refuse the file
  size_t warning_count;
  const char* const* missing_files;
  size_t missing_file_count;
} ht_diagnosis;

/// Checks the files of a path by their headers and sizes. Each problem has a hint that says how to fix it. A
/// malformed file is HT_OK with problems. HT_OPEN_FAILED, HT_READ_FAILED, HT_NOT_REGULAR_FILE if the path
/// cannot be examined.
HT_C_API ht_status ht_validate(const char* path, const ht_open_options* options,
                               const ht_diagnosis** diagnosis, ht_error** error);

// Convert.

/// Renames matching tensors; one `*` on each side stands for the same text: "model.*" to "*".
typedef struct ht_rename {
  const char* from;
  const char* to;
} ht_rename;

/// Changes the type of matching tensors: a dtype casts, a block encoding quantizes. A pattern with a wildcard
/// skips tensors for which the type is unusual, such as integers, norms and biases; a pattern without a
/// wildcard always applies.
typedef struct ht_type_rule {
  const char* pattern;
  ht_type type;
} ht_type_rule;

/// The options of ht_model_convert and ht_save. They have the meanings and defaults of the options of
/// `htensor convert`.
typedef struct ht_convert_options {
  size_t size;
  /// "safetensors", "gguf", …; NULL is the format of the target's extension.
  const char* format;
  /// The tensors to convert, by their names in the source.
  const ht_filter* filter;
  /// For each tensor, the first rename whose `from` matches the name is used, and the first type rule that
  /// converts the tensor (see ht_type_rule). Type rules without a wildcard are tried before all others,
  /// whatever their position in `types`. HT_NOT_FOUND for a rename or a rule that is used for no tensor.
  const ht_rename* renames;
  size_t rename_count;
  const ht_type_rule* types;
  size_t type_count;
  /// F32, F16 or BF16 decodes the blocks that no type rule changes; HT_TYPE_UNKNOWN leaves them encoded.
  ht_type dequantize;
  /// How values are rounded where `round` or `lossy` allows it; HT_ROUND_NONE is HT_ROUND_NEAREST_EVEN here.
  ht_rounding rounding;
  /// As in ht_read_options.
  int saturate;
  uint64_t seed;
  /// Alignment of tensor data in bytes, a power of two; 0 is the format's default.
  uint64_t alignment;
  /// Orders tensors as the format's reference writer does.
  int canonical;
  /// Makes all tensors row-major and little-endian, even if the format can store other layouts.
  int normalize_layout;
  /// Places data so that the file system can share disk blocks with the source (`--layout shared`).
  int share_blocks;
  /// Writes an IRPA without dtypes, shapes and metadata.
  int plain;
  /// Leaves out all metadata; it then does not count as lost.
  int skip_metadata;
  /// Splits the model into files of about this many bytes; 0 writes one file.
  uint64_t shard_bytes;
  /// Losses to allow: `round` allows HT_LOSS_ROUNDING, `drop_metadata` HT_LOSS_METADATA, `raw_bytes`
  /// HT_LOSS_RAW_BYTES, `lossy` all three. Any other loss is HT_WOULD_LOSE.
  int round;
  int drop_metadata;
  int raw_bytes;
  int lossy;
  /// Also writes the target's seal.
  int seal;
  /// Replaces an existing target; else HT_ALREADY_EXISTS.
  int force;
  /// Plans and checks, writes nothing. Losses that are not allowed are listed instead of HT_WOULD_LOSE.
  int dry_run;
  /// The path at which to write an MLIR module for IREE, and the parameter scope of the module; not for
  /// ht_save. A module implies `normalize_layout`. Tensors below `inline_below` bytes are stored in the
  /// module: UINT64_MAX inlines all. The module is written last: if its write fails or is cancelled, the
  /// target is complete and stays.
  const char* emit_mlir;
  const char* scope;
  uint64_t inline_below;
  const ht_work* work;
  /// In safetensors files, writes an empty `__metadata__` if the model has no metadata keys.
  int empty_metadata;
} ht_convert_options;

typedef enum ht_loss_kind {
  HT_LOSS_METADATA = 0,   // a key, or the note of a tensor, is left out
  HT_LOSS_RAW_BYTES = 1,  // a tensor keeps its bytes and loses its dtype, encoding or shape
  HT_LOSS_ROUNDING = 2    // values of a tensor are rounded
} ht_loss_kind;

/// Data that the conversion does not keep.
typedef struct ht_loss {
  ht_loss_kind kind;
  int is_allowed;
  int is_tensor;  // `name` is the name of a tensor, else a key of the metadata
  ht_string name;
  const char* why;
  const char* hint;
  const char* change;  // "F8_E4M3 [8] → I8 [8]", or ""
} ht_loss;

/// The files written and the losses; with `dry_run`, those of the plan.
typedef struct ht_conversion_report {
  const char* path;            // the path for ht_model_open: the shard index, else the first file
  const char* const* files;    // all files of the model
  const uint64_t* file_bytes;  // of each
  size_t file_count;
  uint64_t bytes;          // of all files
  uint64_t reflink_bytes;  // of `bytes`: shared with the source by the file system
  uint64_t direct_bytes;   // by direct I/O
  uint64_t copy_file_range_bytes;
  uint64_t read_write_bytes;
  const char* const* removed;  // shards, index and seal of the replaced set whose names were not reused
  size_t removed_count;
  const char* seal;        // NULL if the target is not sealed
  const char* stale_seal;  // a seal that covers a replaced file and was not renewed; or NULL
  const ht_loss* const* losses;
  size_t loss_count;
  const ht_error* const* warnings;  // why common readers may refuse the files; released with the result
  size_t warning_count;
} ht_conversion_report;

/// Writes the model to `target`, in another format or with other names, types or layout. Bytes that do not
/// change are shared, or copied through a few small buffers. The write is atomic. The target may be the
/// model's own file. HT_WOULD_LOSE, HT_ALREADY_EXISTS, HT_CHANGED_UNDERFOOT, HT_NO_SPACE, HT_WRITE_FAILED,
/// HT_IN_USE, HT_CANCELLED.
HT_C_API ht_status ht_model_convert(const ht_model* model, const char* target,
                                    const ht_convert_options* options, const ht_conversion_report** converted,
                                    ht_error** error);

// Compare.

typedef struct ht_diff_options {
  size_t size;
  /// Compares values, across dtypes and encodings, and allows |a - b| up to `tolerance`. Otherwise bytes are
  /// compared.
  int compare_values;
  double tolerance;
  const ht_work* work;
} ht_diff_options;

typedef enum ht_difference_kind {
  HT_DIFFERENT_DTYPE = 0,
  HT_DIFFERENT_SHAPE = 1,
  HT_DIFFERENT_CONTENTS = 2,
  HT_DIFFERENT_NOTE = 3
} ht_difference_kind;

/// A tensor that both models have, with the first property in which they differ.
typedef struct ht_difference {
  ht_string name;
  ht_difference_kind why;
  uint64_t first_byte;  // in the row-major little-endian form; UINT64_MAX if unknown
  double max_abs;       // `max_abs`, `rms` and `cosine` are NaN if unknown
  double rms;
  double cosine;
} ht_difference;

typedef struct ht_differences {
  int same;  // tensors and metadata
  int same_tensors;
  const ht_string* only_a;
  size_t only_a_count;
  const ht_string* only_b;
  size_t only_b_count;
  const ht_difference* const* differ;
  size_t differ_count;
  // Keys of the metadata.
  const ht_string* metadata_only_a;
  size_t metadata_only_a_count;
  const ht_string* metadata_only_b;
  size_t metadata_only_b_count;
  const ht_string* metadata_differ;
  size_t metadata_differ_count;
} ht_differences;

/// Compares two models of any formats by names, types, shapes, contents and metadata. HT_OK means that the
/// comparison is complete; its result is `(*differences)->same`. HT_OUT_OF_BOUNDS for an invalid tolerance,
/// HT_READ_FAILED, HT_CANCELLED.
HT_C_API ht_status ht_diff(const ht_model* a, const ht_model* b, const ht_diff_options* options,
                           const ht_differences** differences, ht_error** error);

// Edit metadata.

/// Sets a key to `value` or, if `value` is NULL, to `text`. If both are NULL, removes the key. `text` is
/// parsed as the type of the existing key; for a new key it is a string.
typedef struct ht_metadata_edit {
  ht_string key;
  const ht_value* value;
  const char* text;
} ht_metadata_edit;

typedef struct ht_edit_options {
  size_t size;
  /// Refuses an edit that does not fit before the data, with HT_HEADER_TOO_LARGE, instead of moving the data.
  int no_grow;
  uint64_t max_header_bytes;
  const ht_work* work;
} ht_edit_options;

typedef struct ht_edit_report {
  int changed;        // 0 if the edits changed nothing; the file was not written then
  uint64_t moved_by;  // bytes by which the data moved
  const char* seal;   // the renewed seal; NULL if the file is not sealed
} ht_edit_report;

/// Applies all edits to one safetensors or GGUF file and replaces it atomically; open models keep the old
/// file. HT_NOT_FOUND for a missing key to remove, HT_DTYPE_MISMATCH, HT_WOULD_LOSE, HT_BAD_NAME,
/// HT_CHECKSUM_MISMATCH.
HT_C_API ht_status ht_edit_metadata(const char* path, const ht_metadata_edit* edits, size_t edit_count,
                                    const ht_edit_options* options, const ht_edit_report** edited,
                                    ht_error** error);

// Save.

/// A tensor to save: elements in the caller's memory, or a tensor of a model. The memory must not change
/// during the call. All structs of an array have the same `size`.
typedef struct ht_tensor_to_save {
  size_t size;
  ht_string name;
  /// The tensor to save under `name`, without a copy where possible. If it is set, the fields below are
  /// ignored. NULL saves the elements at `data`.
  const ht_tensor* tensor;
  ht_type type;
  uint32_t rank;
  const int64_t* dims;
  /// In elements; NULL is row-major. Elements with other strides are copied first; packed dtypes and blocks
  /// have none.
  const int64_t* strides;
  /// Elements in native byte order.
  const void* data;
  size_t bytes;
  /// The name of a group of tensors; NULL is "". Tensors of one group are stored together, unless
  /// `canonical` orders them. The file does not contain the name, and the `scope` of ht_convert_options is
  /// unrelated.
  const char* scope;
} ht_tensor_to_save;

typedef struct ht_save_options {
  size_t size;
  /// The options of a conversion of these tensors; may be NULL. `filter` and `renames` apply to their names,
  /// and `types` and `dequantize` convert their values, also of elements in memory.
  const ht_convert_options* convert;
  const ht_metadata_item* metadata;
  size_t metadata_count;
} ht_save_options;

/// Writes tensors to `target`; the write is atomic. HT_DUPLICATE_TENSOR, HT_SIZE_MISMATCH unless `bytes`
/// matches type and dims, and the errors of ht_model_convert.
HT_C_API ht_status ht_save(const char* target, const ht_tensor_to_save* tensors, size_t tensor_count,
                           const ht_save_options* options, const ht_conversion_report** converted,
                           ht_error** error);
/// Writes to memory the bytes that ht_save would write to a file. `options->convert->format` is required.
/// `allocate` is called once with the size of the file and returns memory of the caller, or NULL for
/// HT_OUT_OF_MEMORY. Shards, a seal, MLIR and a dry run are HT_BAD_STATE.
HT_C_API ht_status ht_save_to_memory(const ht_tensor_to_save* tensors, size_t tensor_count,
                                     const ht_save_options* options,
                                     void* (*allocate)(void* context, size_t bytes), void* context,
                                     ht_error** error);
/// Fills in type, rank, dims, strides, data and bytes from a DLPack tensor, which the caller keeps until the
/// save is over and then deletes. HT_DEVICE_UNAVAILABLE unless the memory is on the CPU, HT_BAD_DTYPE for
/// more than one lane and for dtypes that the library lacks, HT_BAD_SHAPE for an invalid shape.
HT_C_API ht_status ht_from_dlpack(const struct DLManagedTensor* managed, ht_tensor_to_save* tensor,
                                  ht_error** error);
/// The same from the versioned form, which also has I4, U4 and floats of at most 8 bits. HT_BAD_VERSION for a
/// major version other than 1, HT_UNSUPPORTED_ENCODING for elements below 8 bits that are padded to bytes.
HT_C_API ht_status ht_from_dlpack_versioned(const struct DLManagedTensorVersioned* managed,
                                            ht_tensor_to_save* tensor, ht_error** error);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif
