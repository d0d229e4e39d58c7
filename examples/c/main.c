// Lists, reads, verifies and converts a model with H-Tensor's C API.
//
//   example MODEL TARGET     TARGET is a file in any format that can be written: model.gguf
//   example                  the same with a model of two tensors that it saves first
#include <htensor/htensor.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// Returns 0 if the call succeeded. Otherwise prints and frees the error, and returns 1.
static int failed(ht_status status, ht_error* error) {
  if (status == HT_OK) return 0;
  fprintf(stderr, "error: %s\n", ht_error_text(error));
  if (*ht_error_hint(error) != '\0') fprintf(stderr, "  hint: %s\n", ht_error_hint(error));
  ht_error_free(error);
  return 1;
}

// Writes two tensors in memory to a file.
static int save(const char* path) {
  static const float weight[2][3] = {{1, 2, 3}, {4, 5, 6}};
  static const int32_t steps[4] = {10, 20, 30, 40};
  static const int64_t weight_dims[] = {2, 3};
  static const int64_t steps_dims[] = {4};
  const ht_tensor_to_save tensors[] = {{.size = sizeof(ht_tensor_to_save),
                                        .name = {"weight", 0},
                                        .type = HT_F32,
                                        .rank = 2,
                                        .dims = weight_dims,
                                        .data = weight,
                                        .bytes = sizeof weight},
                                       {.size = sizeof(ht_tensor_to_save),
                                        .name = {"steps", 0},
                                        .type = HT_I32,
                                        .rank = 1,
                                        .dims = steps_dims,
                                        .data = steps,
                                        .bytes = sizeof steps}};
  const ht_metadata_item author = {.key = {"author", 0},
                                   .value = {.type = HT_VALUE_STRING, .as = {.text = {"examples/c", 0}}}};
  const ht_convert_options convert = {.size = sizeof convert, .force = 1};
  const ht_save_options options = {
      .size = sizeof options, .convert = &convert, .metadata = &author, .metadata_count = 1};
  ht_error* error = NULL;
  return failed(ht_save(path, tensors, 2, &options, NULL, &error), error);
}

static void print_tensor(const ht_tensor_info* info) {
  printf("  %-8s %10" PRIu64 " bytes  %s [", info->type_name, info->byte_size, info->name.data);
  for (uint32_t i = 0; i < info->rank; ++i) printf("%s%" PRId64, i == 0 ? "" : ", ", info->dims[i]);
  printf("]\n");
}

// Names, types and shapes are in the header: no data is read.
static void list(const ht_model* model) {
  printf("%s, %zu tensors\n", ht_model_format(model), ht_model_count(model));
  ht_tensor_info info = {.size = sizeof info};
  for (size_t i = 0; i < ht_model_count(model); ++i) {
    if (ht_model_describe(model, i, &info, NULL) == HT_OK) print_tensor(&info);
  }
  for (size_t i = 0; i < ht_model_metadata_count(model); ++i) {
    const ht_metadata_item* item = NULL;
    if (ht_model_metadata_at(model, i, &item, NULL) == HT_OK && item->value.type == HT_VALUE_STRING)
      printf("  %s = %s\n", item->key.data, item->value.as.text.data);
  }
}

// Prints the statistics of each tensor and the last value of the first tensor. Works for every dtype of real
// numbers and for block encodings.
static int read_values(const ht_model* model) {
  int bad = 0;
  for (size_t i = 0; i < ht_model_count(model) && !bad; ++i) {
    ht_error* error = NULL;
    ht_tensor* tensor = NULL;
    if (failed(ht_model_at(model, i, &tensor, &error), error)) return 1;
    ht_statistics statistics = {.size = sizeof statistics};
    ht_tensor_info info = {.size = sizeof info};
    bad = failed(ht_tensor_describe(tensor, &info, &error), error) ||
          failed(ht_tensor_statistics(tensor, NULL, &statistics, &error), error);
    if (!bad)
      printf("  %s: min %g, max %g, mean %g\n", info.name.data, statistics.min, statistics.max,
             statistics.mean);
    if (!bad && i == 0 && info.rank > 0 && statistics.count > 0) {
      int64_t* last = calloc(info.rank, sizeof *last);
      double value = 0;
      if (last == NULL) bad = 1;
      for (uint32_t axis = 0; !bad && axis < info.rank; ++axis) last[axis] = info.dims[axis] - 1;
      if (!bad) bad = failed(ht_tensor_value(tensor, last, info.rank, &value, &error), error);
      if (!bad) printf("  %s: the last value is %g\n", info.name.data, value);
      free(last);
    }
    ht_tensor_free(tensor);
  }
  return bad;
}

static int seal_and_verify(const ht_model* model, const char* path) {
  ht_error* error = NULL;
  if (failed(ht_model_seal(model, NULL, NULL, &error), error)) return 1;
  const ht_verification* found = NULL;
  if (failed(ht_verify(path, NULL, &found, &error), error)) return 1;
  printf("%s: %" PRIu64 " bytes\n", found->ok ? "intact" : "damaged", found->checked_bytes);
  const int bad = !found->ok;
  ht_result_free(found);
  return bad;
}

static int print_progress(void* context, const ht_progress* progress) {
  (void)context;
  const double total = (double)progress->total_bytes;
  fprintf(stderr, "\r%3.0f %%", total > 0 ? 100.0 * (double)progress->done_bytes / total : 100.0);
  return 0;  // another number cancels
}

static int convert(const ht_model* model, const char* target) {
  const ht_work work = {.size = sizeof work, .progress = print_progress};
  const ht_convert_options options = {.size = sizeof options, .force = 1, .work = &work};
  ht_error* error = NULL;
  const ht_conversion_report* converted = NULL;
  const ht_status status = ht_model_convert(model, target, &options, &converted, &error);
  fputc('\n', stderr);  // ends the line of the progress
  if (failed(status, error)) return 1;
  for (size_t i = 0; i < converted->file_count; ++i)
    printf("wrote %s, %" PRIu64 " bytes\n", converted->files[i], converted->file_bytes[i]);
  ht_model* copy = NULL;
  int bad = failed(ht_model_open(converted->path, NULL, &copy, &error), error);
  const ht_differences* differences = NULL;
  bad = bad || failed(ht_diff(model, copy, NULL, &differences, &error), error);
  if (!bad) printf("%s\n", differences->same_tensors ? "every tensor is the same" : "tensors differ");
  bad = bad || !differences->same_tensors;
  ht_result_free(differences);
  ht_model_free(copy);
  ht_result_free(converted);
  return bad;
}

int main(int argc, char** argv) {
  const char* path = argc > 2 ? argv[1] : "example.safetensors";
  const char* target = argc > 2 ? argv[2] : "example.gguf";
  if (argc != 1 && argc != 3) {
    fprintf(stderr, "usage: %s [MODEL TARGET]\n", argv[0]);
    return 2;
  }
  if (argc == 1 && save(path)) return 1;
  ht_error* error = NULL;
  ht_model* model = NULL;
  if (failed(ht_model_open(path, NULL, &model, &error), error)) return 1;
  list(model);
  const int bad = read_values(model) || seal_and_verify(model, path) || convert(model, target);
  ht_model_free(model);
  return bad;
}
