// The presets llama-1b-q4_k_m and llama-tiny.
#include <algorithm>
#include <cmath>
#include <htensor/hash/digest.hpp>
#include <map>
#include <set>

#include "cli/program_test.hpp"

namespace ht::synth_llama_test {
namespace {

class SynthLlama : public Cli {
 protected:
  // The model that `synth` makes of the preset with these options.
  Model make_model(const std::string& name, const std::string& options) {
    const auto outcome = run("synth " + name + " --preset llama-1b-q4_k_m -q " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Model::open(folder_ / name).value();
  }
};

std::string_view type_name(const Entry& entry) {
  return entry.encoding == EncodingTag::dense ? find_dtype(entry.dtype)->name
                                              : find_encoding(entry.encoding)->name;
}

// Returns the type and the dimensions of a tensor: "Q4_K 512 2048".
std::string type_and_dims(const Catalog& catalog, std::string_view name) {
  const auto entry = catalog[catalog.find(name).value()];
  std::string text(type_name(entry));
  for (const auto dim : entry.dims) text += ' ' + std::to_string(dim);
  return text;
}

void expect_same_tensors(const Model& first, const Model& second) {
  EXPECT_EQ(second.catalog().metadata(), first.catalog().metadata());
  ASSERT_EQ(second.catalog().size(), first.catalog().size());
  for (const Entry& entry : first.catalog()) {
    const auto name = entry.name;
    EXPECT_EQ(type_and_dims(second.catalog(), name), type_and_dims(first.catalog(), name));
    const auto a = first.storage(name).value();
    const auto b = second.storage(name).value();
    EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes())) << name;
  }
}

TEST_F(SynthLlama, has_the_tensors_of_llama_cpp) {
  const auto outcome = run("synth q.gguf --preset llama-1b-q4_k_m --sparse --json");
  EXPECT_EQ(outcome.out, R"({"written":"q.gguf","tensors":147,"bytes":799862912})"
                         "\n");
  const auto model = Model::open(folder_ / "q.gguf").value();
  const auto& catalog = model.catalog();
  std::map<std::string_view, int> types;
  std::int64_t parameters = 0;
  for (const Entry& entry : catalog) {
    ++types[type_name(entry)];
    parameters += element_count(entry.dims).value();
  }
  EXPECT_EQ(types, (std::map<std::string_view, int>{{"F32", 34}, {"Q4_K", 96}, {"Q6_K", 17}}));
  EXPECT_EQ(parameters, 1235814432);
  EXPECT_EQ(type_and_dims(catalog, "token_embd.weight"), "Q6_K 128256 2048");
  EXPECT_EQ(type_and_dims(catalog, "rope_freqs.weight"), "F32 32");
  EXPECT_EQ(type_and_dims(catalog, "output_norm.weight"), "F32 2048");
  const std::set<int> finer{0, 1, 4, 7, 10, 13, 14, 15};
  for (int i = 0; i < 16; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + '.';
    const std::string type = finer.contains(i) ? "Q6_K" : "Q4_K";
    EXPECT_EQ(type_and_dims(catalog, prefix + "attn_norm.weight"), "F32 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "attn_q.weight"), "Q4_K 2048 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "attn_k.weight"), "Q4_K 512 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "attn_v.weight"), type + " 512 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "attn_output.weight"), "Q4_K 2048 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "ffn_norm.weight"), "F32 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "ffn_gate.weight"), "Q4_K 8192 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "ffn_up.weight"), "Q4_K 8192 2048");
    EXPECT_EQ(type_and_dims(catalog, prefix + "ffn_down.weight"), type + " 2048 8192");
  }
  // The vocabulary takes disk space, the sparse data almost none.
  struct stat disk{};
  ASSERT_EQ(stat((folder_ / "q.gguf").c_str(), &disk), 0);
  EXPECT_LT(disk.st_blocks * 512, 8 << 20);
}

TEST_F(SynthLlama, has_metadata_of_the_types_of_llama_cpp) {
  const auto model = make_model("q.gguf", "--sparse");
  const auto& metadata = model.catalog().metadata();
  const std::map<std::string, std::string> texts{{"general.architecture", "llama"},
                                                 {"tokenizer.ggml.model", "gpt2"},
                                                 {"tokenizer.ggml.pre", "llama-bpe"}};
  for (const auto& [key, text] : texts) EXPECT_EQ(metadata.find(key)->text(), text) << key;
  EXPECT_TRUE(metadata.find("general.name")->text());
  const std::map<std::string, std::uint64_t> numbers{{"general.file_type", 15},
                                                     {"general.quantization_version", 2},
                                                     {"llama.block_count", 16},
                                                     {"llama.context_length", 131072},
                                                     {"llama.embedding_length", 2048},
                                                     {"llama.feed_forward_length", 8192},
                                                     {"llama.attention.head_count", 32},
                                                     {"llama.attention.head_count_kv", 8},
                                                     {"llama.attention.key_length", 64},
                                                     {"llama.attention.value_length", 64},
                                                     {"llama.rope.dimension_count", 64},
                                                     {"llama.vocab_size", 128256},
                                                     {"tokenizer.ggml.bos_token_id", 128000},
                                                     {"tokenizer.ggml.eos_token_id", 128001}};
  for (const auto& [key, number] : numbers) {
    EXPECT_EQ(metadata.find(key)->type(), MetaType::u32) << key;
    EXPECT_EQ(metadata.find(key)->unsigned_integer(), number) << key;
  }
  EXPECT_EQ(metadata.find("llama.rope.freq_base")->type(), MetaType::f32);
  EXPECT_EQ(metadata.find("llama.rope.freq_base")->real(), 500000.0);
  EXPECT_EQ(metadata.find("llama.attention.layer_norm_rms_epsilon")->type(), MetaType::f32);
  EXPECT_NEAR(metadata.find("llama.attention.layer_norm_rms_epsilon")->real().value(), 1e-5, 1e-9);
  EXPECT_EQ(metadata.find("tokenizer.ggml.token_type")->array()->element_type(), MetaType::i32);
  EXPECT_EQ(metadata.find("tokenizer.ggml.token_type")->array()->size(), 128256U);
}

TEST_F(SynthLlama, has_unique_tokens_and_merges_that_produce_them) {
  const auto model = make_model("q.gguf", "--size 4M --sparse");
  const auto& metadata = model.catalog().metadata();
  const auto vocabulary = metadata.find("llama.vocab_size")->unsigned_integer().value();
  EXPECT_EQ(type_and_dims(model.catalog(), "token_embd.weight"),
            "Q6_K " + std::to_string(vocabulary) + " 256");
  const auto tokens = metadata.find("tokenizer.ggml.tokens")->array().value();
  EXPECT_EQ(tokens.element_type(), MetaType::string);
  EXPECT_EQ(tokens.size(), vocabulary);
  EXPECT_EQ(metadata.find("tokenizer.ggml.token_type")->array()->size(), vocabulary);
  std::vector<std::string> texts;
  for (const auto token : tokens) texts.emplace_back(token.text().value());
  const std::set<std::string> all(texts.begin(), texts.end());
  EXPECT_EQ(all.size(), vocabulary);
  EXPECT_EQ(texts[metadata.find("tokenizer.ggml.bos_token_id")->unsigned_integer().value()],
            "<|begin_of_text|>");
  EXPECT_EQ(texts[metadata.find("tokenizer.ggml.eos_token_id")->unsigned_integer().value()],
            "<|end_of_text|>");
  const auto merges = metadata.find("tokenizer.ggml.merges")->array().value();
  EXPECT_GT(merges.size(), vocabulary / 2);
  for (const auto merge : merges) {
    std::string text(merge.text().value());
    const auto middle = text.find(' ');
    ASSERT_NE(middle, std::string::npos) << text;
    EXPECT_TRUE(all.contains(text.substr(middle + 1))) << text;
    EXPECT_TRUE(all.contains(text.erase(middle, 1))) << text;
  }
}

TEST_F(SynthLlama, scales_to_the_approximate_size_in_whole_blocks) {
  for (const std::uint64_t size : {std::uint64_t{1} << 18, std::uint64_t{1} << 20, std::uint64_t{15} << 20,
                                   std::uint64_t{1} << 27, std::uint64_t{1} << 30, std::uint64_t{1} << 40}) {
    const auto model = make_model("s.gguf", "--force --sparse --size " + std::to_string(size));
    const auto& catalog = model.catalog();
    std::uint64_t bytes = 0;
    for (const Entry& entry : catalog) bytes += entry.bytes;
    EXPECT_GE(bytes, size * 9 / 10);
    EXPECT_LE(bytes, size);
    // The metadata matches the shapes of the tensors.
    const auto number = [&](const char* key) { return catalog.metadata().find(key)->integer().value(); };
    const auto head = number("llama.rope.dimension_count");
    const auto hidden = number("llama.embedding_length");
    EXPECT_EQ(hidden % 256, 0);
    EXPECT_EQ(head * number("llama.attention.head_count"), hidden);
    EXPECT_EQ(type_and_dims(catalog, "rope_freqs.weight"), "F32 " + std::to_string(head / 2));
    EXPECT_EQ(catalog.size(), static_cast<std::size_t>(number("llama.block_count")) * 9 + 3);
    const auto down = catalog[catalog.find("blk.0.ffn_down.weight").value()];
    EXPECT_EQ(down.dims[0], hidden);
    EXPECT_EQ(down.dims[1], number("llama.feed_forward_length"));
    EXPECT_EQ(down.dims[1] % 256, 0);
    const auto keys = catalog[catalog.find("blk.0.attn_k.weight").value()];
    EXPECT_EQ(keys.dims[0], head * number("llama.attention.head_count_kv"));
  }
  const auto outcome = run("synth t.gguf --preset llama-1b-q4_k_m --sparse --json --size 8E");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"size_fits_63_bits")"));
}

TEST_F(SynthLlama, has_no_holes_unless_sparse) {
  const auto dense = make_model("d.gguf", "--size 4M");
  const auto sparse = make_model("s.gguf", "--size 4M --sparse");
  const auto& catalog = dense.catalog();
  for (const Entry& entry : catalog) {
    const auto facts = find_encoding(entry.encoding);
    if (!facts) continue;
    // Every block has been written.
    const auto storage = dense.storage(entry.name).value();
    const auto bytes = storage.bytes();
    for (std::size_t at = 0; at < bytes.size(); at += facts->block_bytes) {
      const auto block = bytes.subspan(at, facts->block_bytes);
      ASSERT_NE(load_le<std::uint64_t>(block), 0U) << entry.name << " at " << at;
    }
  }
  // The first and last blocks of the sparse file equal those of the dense file.
  const auto whole = dense.storage("token_embd.weight").value();
  const auto holed = sparse.storage("token_embd.weight").value();
  constexpr std::size_t four_blocks = 840;
  EXPECT_TRUE(std::ranges::equal(whole.bytes().first(four_blocks), holed.bytes().first(four_blocks)));
  for (const auto byte : holed.bytes().subspan(four_blocks)) ASSERT_EQ(byte, std::byte{});
  const auto norm = dense.flat<F32>("output_norm.weight").value();
  const auto end = sparse.flat<F32>("output_norm.weight").value();
  EXPECT_TRUE(std::ranges::equal(norm, end));
  for (const float value : norm) EXPECT_LT(std::abs(value - 1), 0.1F);
}

TEST_F(SynthLlama, has_the_same_tensors_in_irpa) {
  const auto gguf = make_model("q.gguf", "--size 1M --seed 9");
  const auto irpa = make_model("q.irpa", "--size 1M --seed 9");
  expect_same_tensors(gguf, irpa);
}

TEST_F(SynthLlama, has_the_rotary_frequencies_of_llama_3_2) {
  const auto model = make_model("q.gguf", "--size 1M");
  const auto factors = model.flat<F32>("rope_freqs.weight").value();
  EXPECT_EQ(factors(0), 1.0F);
  EXPECT_EQ(factors(factors.elements() - 1), 32.0F);
  EXPECT_TRUE(std::ranges::is_sorted(factors));
}

class SynthTiny : public Cli {
 protected:
  Model make_model(const std::string& options, const std::string& name) {
    const auto outcome = run("synth " + name + " --preset llama-tiny -q " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Model::open(folder_ / name).value();
  }
};

TEST_F(SynthTiny, has_names_and_metadata_of_llama_cpp_in_gguf) {
  const auto model = make_model("", "t.gguf");
  const auto& catalog = model.catalog();
  EXPECT_EQ(catalog.size(), 22U);
  EXPECT_EQ(type_and_dims(catalog, "token_embd.weight"), "F32 512 256");
  EXPECT_EQ(type_and_dims(catalog, "blk.1.attn_k.weight"), "F32 128 256");
  EXPECT_EQ(type_and_dims(catalog, "output.weight"), "F32 512 256");
  EXPECT_EQ(catalog.metadata().find("general.architecture")->text(), "llama");
  EXPECT_EQ(catalog.metadata().find("general.file_type")->unsigned_integer(), 0U);
  EXPECT_EQ(catalog.metadata().find("llama.attention.head_count")->unsigned_integer(), 4U);
  EXPECT_EQ(catalog.metadata().find("llama.attention.head_count_kv")->unsigned_integer(), 2U);
  EXPECT_EQ(catalog.metadata().find("llama.rope.dimension_count")->unsigned_integer(), 64U);
  // Rows have 256 elements, so the deviation is near 1 / 16: 0.02 times a power of two.
  double squares = 0;
  const auto weights = model.flat<F32>("blk.0.attn_q.weight").value();
  for (const float value : weights) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(std::sqrt(squares / (256 * 256)), 0.08, 0.001);
}

TEST_F(SynthTiny, has_the_same_tensors_in_irpa) {
  for (const std::string options : {"", "--dtype Q4_K_M"}) {
    const auto gguf = make_model(options + " --force", "t.gguf");
    const auto irpa = make_model(options + " --force", "t.irpa");
    expect_same_tensors(gguf, irpa);
  }
}

TEST_F(SynthTiny, accepts_the_file_types_of_llama_cpp) {
  const auto eight = make_model("--dtype Q8_0", "8.gguf");
  EXPECT_EQ(type_and_dims(eight.catalog(), "blk.0.ffn_down.weight"), "Q8_0 256 512");
  EXPECT_EQ(type_and_dims(eight.catalog(), "output_norm.weight"), "F32 256");
  EXPECT_EQ(eight.catalog().metadata().find("general.file_type")->unsigned_integer(), 7U);
  const auto mixed = make_model("--dtype Q4_K_M", "4.gguf");
  EXPECT_EQ(type_and_dims(mixed.catalog(), "token_embd.weight"), "Q4_K 512 256");
  EXPECT_EQ(type_and_dims(mixed.catalog(), "blk.0.ffn_down.weight"), "Q4_K 256 512");
  EXPECT_EQ(type_and_dims(mixed.catalog(), "blk.1.ffn_down.weight"), "Q6_K 256 512");
  EXPECT_EQ(type_and_dims(mixed.catalog(), "output.weight"), "Q6_K 512 256");
  EXPECT_EQ(mixed.catalog().metadata().find("general.file_type")->unsigned_integer(), 15U);
  const auto narrow = make_model("--dtype BF16", "b.gguf");
  EXPECT_EQ(narrow.catalog().metadata().find("general.file_type")->unsigned_integer(), 32U);
  const auto outcome = run("synth 8.safetensors --preset llama-tiny --dtype Q8_0 --json");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, HasSubstr("dtype_name_is_known"));
  EXPECT_THAT(outcome.out, HasSubstr(".gguf"));
}

TEST_F(SynthTiny, floats_of_at_most_8_bits_have_a_deviation_of_1) {
  for (const std::string dtype : {"F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E5M2"}) {
    const auto model = make_model("--force --dtype " + dtype, "t.safetensors");
    for (const auto* const name : {"model.layers.0.self_attn.q_proj.weight", "lm_head.weight"}) {
      const auto facts = statistics(model[name].value()).value();
      EXPECT_NEAR(facts.standard_deviation(), 1, 0.05) << dtype << name;
      EXPECT_LT(facts.zeros, facts.count / 4) << dtype << name;
    }
    const auto norm = statistics(model["model.norm.weight"].value()).value();
    EXPECT_NEAR(norm.mean(), 1, 0.05) << dtype;
    EXPECT_LT(norm.standard_deviation(), 0.05) << dtype;
  }
}

TEST_F(SynthTiny, has_names_and_config_of_transformers_in_safetensors) {
  const auto model = make_model("--config --dtype BF16", "model.safetensors");
  EXPECT_EQ(model.catalog().size(), 21U);
  EXPECT_EQ(type_and_dims(model.catalog(), "model.layers.1.self_attn.k_proj.weight"), "BF16 128 256");
  EXPECT_EQ(type_and_dims(model.catalog(), "lm_head.weight"), "BF16 512 256");
  const auto config = text_of("config.json");
  for (const auto* part : {R"("num_attention_heads": 4)", R"("num_key_value_heads": 2)", R"("head_dim": 64)",
                           R"("rope_theta": 500000.0)", R"("rope_type": "llama3")", R"("vocab_size": 512)",
                           R"("torch_dtype": "bfloat16")", R"("tie_word_embeddings": false)"})
    EXPECT_THAT(config, HasSubstr(part));
}

TEST_F(SynthTiny, config_path_is_free) {
  make_model("--config", "a.safetensors");
  const auto outcome = run("synth b.safetensors --preset llama-tiny --config --json");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"config_path_is_free")"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.safetensors"));
  EXPECT_EQ(run("synth b.safetensors --preset llama-1b --sparse --config --force").status, 0);
  EXPECT_THAT(text_of("config.json"), HasSubstr(R"("num_attention_heads": 32)"));
}

TEST_F(SynthTiny, refuses_incompatible_options) {
  EXPECT_THAT(run("synth a.gguf --preset llama-tiny --size 1M").err,
              HasSubstr("--size: llama-tiny has a fixed size"));
  EXPECT_THAT(run("synth a.ht --preset matrix --config").err,
              HasSubstr("--config: matrix has no config.json"));
  EXPECT_THAT(run("synth a.safetensors --preset llama-1b --size 1M --config").err,
              HasSubstr("leave out --size"));
}

TEST_F(SynthLlama, refuses_other_dtypes) {
  const auto outcome = run("synth q.gguf --preset llama-1b-q4_k_m --dtype F32");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--dtype: llama-1b-q4_k_m has fixed types"));
  EXPECT_THAT(outcome.err, HasSubstr("[usage]"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "q.gguf"));
}

TEST_F(SynthLlama, bytes_never_change) {
  // The bytes are the same on every machine and in every version, so files made elsewhere can be compared.
  make_model("q.gguf", "--size 1M --seed 3");
  EXPECT_EQ(crc64nvme(testing::read_file(folder_ / "q.gguf")), 14518548184483946142U);
}

}  // namespace
}  // namespace ht::synth_llama_test
