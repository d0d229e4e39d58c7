#include <cmath>
#include <htensor/hash/digest.hpp>

#include "cli/program_test.hpp"
#include "testing/library_types.hpp"

namespace ht::synth_test {
namespace {

TEST_F(Cli, synth_is_deterministic_for_each_seed) {
  ASSERT_EQ(run("synth a.ht --preset matrix --size 100K --dtype BF16 --seed 7").status, 0);
  ASSERT_EQ(run("synth b.ht --preset matrix --size 100K --dtype BF16 --seed 7").status, 0);
  ASSERT_EQ(run("synth c.ht --preset matrix --size 100K --dtype BF16 --seed 8").status, 0);
  EXPECT_EQ(text_of("a.ht"), text_of("b.ht"));
  EXPECT_NE(text_of("a.ht"), text_of("c.ht"));
}

TEST_F(Cli, synth_sparse_takes_little_disk_space_at_any_size) {
  const auto outcome = run("synth big.ht --preset matrix --size 1T --sparse --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, R"({"written":"big.ht","tensors":1,"bytes":1099511627776})"
                         "\n");
  EXPECT_EQ(std::filesystem::file_size(folder_ / "big.ht"), (std::uint64_t{1} << 40) + 128);
  struct stat disk{};
  ASSERT_EQ(stat((folder_ / "big.ht").c_str(), &disk), 0);
  EXPECT_LT(disk.st_blocks * 512, 1 << 20);
  // The first elements equal those of a dense file, and the last element is not in the hole.
  EXPECT_EQ(run("show big.ht big --slice 0,:3 -q").out, [&] {
    EXPECT_EQ(run("synth dense.ht --preset matrix --size 1M").status, 0);
    return run("show dense.ht dense --slice 0,:3 -q").out;
  }());
  EXPECT_NE(run("show big.ht big --slice -1,-1 -q").out, "0\n");
}

TEST_F(Cli, synth_larger_than_the_file_size_limit_is_refused) {
  // A file size limit of the shell stands for the limit of a file system.
  const auto outcome = run("synth big.ht --preset matrix --size 1G --sparse", "ulimit -f 100;");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("hint:"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "big.ht"));
}

TEST_F(Cli, size_fits_63_bits) {
  for (const std::string size : {"8E --dtype I4", "5E --dtype I4", "15E --dtype F64"}) {
    const auto outcome = run("synth big.ht --preset matrix --sparse --json --size " + size);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"size_fits_63_bits")"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "big.ht"));
  }
}

TEST_F(Cli, synth_refuses_the_largest_size_that_can_be_given) {
  const std::string size = " --size 18446744073709551615";
  const auto outcome = run("synth big.ht --preset matrix --sparse --json" + size);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"size_fits_63_bits")"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "big.ht"));
  EXPECT_THAT(run("synth tiny.gguf --preset llama-tiny" + size).err,
              HasSubstr("--size: llama-tiny has a fixed size"));
}

TEST_F(Cli, synth_needs_force_to_replace) {
  const auto before = text_of("m.ht");
  const auto outcome = run("synth m.ht --preset matrix");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("[already_exists]"));
  EXPECT_EQ(text_of("m.ht"), before);
  EXPECT_EQ(run("synth m.ht --preset matrix --force").status, 0);
}

TEST_F(Cli, dtype_name_is_known) {
  const auto outcome = run("synth x.ht --preset matrix --dtype F33 --json");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"dtype_name_is_known")"));
}

TEST_F(Cli, synth_writes_llama_names_and_shapes) {
  const auto outcome = run("synth l.safetensors --preset llama-1b --sparse --json");
  EXPECT_EQ(outcome.out, R"({"written":"l.safetensors","tensors":146,"bytes":2471628800})"
                         "\n");
  const auto list = run("ls l.safetensors --json").out;
  EXPECT_THAT(
      list,
      HasSubstr(R"("name":"model.layers.15.self_attn.k_proj.weight","dtype":"BF16","shape":[512,2048])"));
  EXPECT_THAT(list, Not(HasSubstr("lm_head")));
  EXPECT_THAT(run("synth m.safetensors --preset llama-8b --sparse --json").out,
              HasSubstr(R"("tensors":291,"bytes":16060522496})"));
  EXPECT_THAT(run("ls m.safetensors --json").out,
              HasSubstr(R"("name":"lm_head.weight","dtype":"BF16","shape":[128256,4096])"));
}

TEST_F(Cli, synth_scales_models_to_the_approximate_size) {
  for (const std::uint64_t size : {std::uint64_t{1} << 20, std::uint64_t{1} << 27, std::uint64_t{1} << 40}) {
    for (const std::string preset : {"llama-1b", "llama-8b"}) {
      const auto outcome = run("synth s.safetensors --force --sparse --json --dtype F32 --preset " + preset +
                               " --size " + std::to_string(size));
      ASSERT_EQ(outcome.status, 0) << outcome.out;
      const auto bytes = std::stoull(json_field(outcome.out, "bytes"));
      EXPECT_GE(bytes, size / 2);
      EXPECT_LE(bytes, size * 2);
      EXPECT_THAT(run("ls s.safetensors --json").out, HasSubstr("\"total_bytes\":" + std::to_string(bytes)));
    }
  }
}

TEST_F(Cli, synth_sparse_has_the_ends_of_the_dense_model) {
  ASSERT_EQ(run("synth d.safetensors --preset llama-1b --size 1M").status, 0);
  ASSERT_EQ(run("synth s.safetensors --preset llama-1b --size 1M --sparse").status, 0);
  const auto dense = text_of("d.safetensors");
  const auto sparse = text_of("s.safetensors");
  ASSERT_EQ(dense.size(), sparse.size());
  EXPECT_NE(dense, sparse);
  EXPECT_EQ(dense.substr(dense.size() - 2048), sparse.substr(dense.size() - 2048));
  EXPECT_EQ(run("show d.safetensors model.embed_tokens.weight --slice 0 --json").out,
            run("show s.safetensors model.embed_tokens.weight --slice 0 --json").out);
}

TEST_F(Cli, synth_writes_every_dtype_of_a_format_and_refuses_others) {
  for (const auto& dtype : library_dtypes()) {
    const std::string name(dtype.name);
    const auto outcome = run("synth t.safetensors --force --json --preset matrix --size 3 --dtype " + name);
    if (outcome.status != 0) {
      EXPECT_THAT(outcome.out, HasSubstr(R"("code":"would_lose")")) << name;
      continue;
    }
    const auto model = Model::open(folder_ / "t.safetensors");
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->catalog()[0].dtype, dtype.tag);
  }
  EXPECT_EQ(run("synth f.safetensors --preset llama-1b --size 100K --dtype F4").status, 0);
  EXPECT_TRUE(Model::open(folder_ / "f.safetensors"));
  // A .ht holds one tensor.
  const auto outcome = run("synth t.ht --preset llama-1b --size 100K");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t.ht"));
}

TEST_F(Cli, extension_names_a_format) {
  for (const std::string name : {"t.bin", "t", "t.safetensor"}) {
    const auto outcome = run("synth --preset matrix --json " + name);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"extension_names_a_format")"));
    EXPECT_THAT(outcome.out, HasSubstr("safetensors"));
  }
}

TEST_F(Cli, synth_values_are_normally_distributed_and_never_change) {
  ASSERT_EQ(run("synth t.safetensors --preset matrix --size 1M").status, 0);
  const auto model = Model::open(folder_ / "t.safetensors").value();
  double sum = 0;
  double squares = 0;
  const auto values = model.flat<F32>("t").value();
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.elements());
  EXPECT_NEAR(sum / count, 0, 0.0005);
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.0005);
  // The bytes are the same on every machine and in every version, so files made elsewhere can be compared.
  ASSERT_EQ(run("synth p.safetensors --preset matrix --size 64K --dtype BF16 --seed 3").status, 0);
  EXPECT_EQ(crc64nvme(testing::read_file(folder_ / "p.safetensors")), 8667992041954101086U);
}

}  // namespace
}  // namespace ht::synth_test
