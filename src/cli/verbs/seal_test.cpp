#include <dlfcn.h>

#include "cli/program_test.hpp"
#include "model/test_formats.hpp"

namespace ht::seal_test {
namespace {

class CliSeal : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 9M -q").status, 0);
  }
  void flip(std::string_view name, std::uint64_t offset) {
    auto bytes = testing::read_file(folder_ / name);
    bytes[offset] ^= std::byte{4};
    testing::write_file(folder_ / name, bytes);
  }
  std::string output_of(const std::string& command) {
    const auto status =
        std::system(("cd '" + folder_.path().string() + "' && " + command + " >.stdout 2>/dev/null").c_str());
    return status == 0 ? text_of(".stdout") : "";
  }
};

TEST_F(CliSeal, seal_prints_its_path_and_contents) {
  const auto sealed = run("seal m.safetensors --json");
  EXPECT_EQ(sealed.status, 0) << sealed.err;
  EXPECT_TRUE(is_json(sealed.out)) << sealed.out;
  EXPECT_THAT(sealed.out, StartsWith(R"({"seal":"m.safetensors.htseal","bytes":)"));
  for (const auto* const key : {"\"digest\":\"", "\"base64\":\"", "\"algorithm\":\"crc64nvme\""}) {
    EXPECT_THAT(sealed.out, HasSubstr(key));
  }
  EXPECT_THAT(run("seal m.safetensors").out, HasSubstr("m.safetensors.htseal: "));
  EXPECT_EQ(run("seal m.safetensors -q").out, "");
  EXPECT_EQ(run("seal m.safetensors --algorithm md5").status, 2);
  EXPECT_EQ(run("seal .out").status, 2);
}

TEST_F(CliSeal, verify_exits_with_0_for_valid_files) {
  for (const std::string algorithm : {"crc64nvme", "xxh3-128", "sha256"}) {
    ASSERT_EQ(run("seal m.safetensors --algorithm " + algorithm).status, 0);
    const auto good = run("verify m.safetensors --json");
    EXPECT_EQ(good.status, 0) << good.err;
    EXPECT_TRUE(is_json(good.out)) << good.out;
    EXPECT_THAT(good.out, StartsWith(R"({"ok":true,"verdict":"intact","checked_bytes":)"));
    EXPECT_THAT(good.out, HasSubstr("\"algorithm\":\"" + algorithm + "\""));
    EXPECT_THAT(good.out, HasSubstr("\"bad\":[]"));
  }
  EXPECT_THAT(run("verify m.safetensors").out, HasSubstr("intact"));
  const auto quick = run("verify m.safetensors --quick");
  EXPECT_EQ(quick.status, 0);
  EXPECT_THAT(quick.out, HasSubstr("headers and sizes match; data not read"));
  EXPECT_THAT(quick.out, Not(HasSubstr("intact")));
  const auto quick_json = run("verify m.safetensors --quick --json");
  EXPECT_EQ(quick_json.status, 0);
  EXPECT_THAT(quick_json.out, StartsWith(R"({"ok":true,"verdict":"headers_match","checked_bytes":)"));
  EXPECT_EQ(run("verify m.safetensors -q").out, "");
}

TEST_F(CliSeal, verify_names_the_bad_ranges) {
  ASSERT_EQ(run("seal m.safetensors").status, 0);
  const auto listed = run("ls m.safetensors --filter model.norm.weight --json");
  const auto at = listed.out.find("\"offset\":") + 9;
  const auto offset = std::stoull(listed.out.substr(at));
  flip("m.safetensors", offset + 1);
  const auto bad = run("verify m.safetensors --json");
  EXPECT_EQ(bad.status, 1);
  EXPECT_TRUE(is_json(bad.out)) << bad.out;
  EXPECT_THAT(bad.out, StartsWith(R"({"ok":false,"verdict":"damaged",)"));
  EXPECT_THAT(
      bad.out,
      HasSubstr(R"("bad":[{"file":"m.safetensors","part":"tensor","tensor":"model.norm.weight","offset":)" +
                std::to_string(offset)));
  const auto text = run("verify m.safetensors");
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("model.norm.weight"));
  EXPECT_THAT(text.out, HasSubstr("damaged"));
  EXPECT_THAT(run("verify m.safetensors -q").out, HasSubstr("model.norm.weight"));
  EXPECT_EQ(run("verify m.safetensors --quick").status, 0);
}

TEST_F(CliSeal, verify_names_the_file_of_a_set_that_has_the_verdict) {
  ASSERT_EQ(run("convert m.safetensors set.safetensors --shard-size 3M --seal -q").status, 0);
  std::vector<std::string> shards;
  for (const auto& name : folder_.names()) {
    if (name.starts_with("set-0")) shards.push_back(name);
  }
  ASSERT_GE(shards.size(), 2U);
  flip(shards[0], std::filesystem::file_size(folder_ / shards[0]) - 1);
  std::filesystem::remove(folder_ / shards[1]);
  const auto text = run("verify set.safetensors.index.json");
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("\n" + shards[1] + ": missing"));
}

TEST_F(CliSeal, verify_of_an_unparsable_sealed_file_exits_with_1) {
  ASSERT_EQ(run("seal m.safetensors").status, 0);
  flip("m.safetensors", 8);
  ASSERT_EQ(run("ls m.safetensors").status, 2);
  const auto bad = run("verify m.safetensors --json");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.out, HasSubstr(R"("part":"header","tensor":null,"offset":0,)"));
}

TEST_F(CliSeal, verify_exits_with_1_without_a_seal_and_2_for_other_files) {
  const auto unsealed = run("verify m.safetensors --json");
  EXPECT_EQ(unsealed.status, 1);
  EXPECT_TRUE(is_json(unsealed.out)) << unsealed.out;
  EXPECT_THAT(unsealed.out,
              StartsWith(R"({"ok":false,"verdict":"not_sealed","checked_bytes":0,"bad":[],"error":{)"));
  const auto text = run("verify m.safetensors");
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.err, HasSubstr("[not_sealed]"));
  flip("m.safetensors", 8);
  EXPECT_EQ(run("verify m.safetensors").status, 2);
  EXPECT_EQ(run("verify nothing.safetensors").status, 2);
}

TEST_F(CliSeal, verify_of_a_damaged_seal_exits_with_1) {
  ASSERT_EQ(run("seal m.safetensors").status, 0);
  flip("m.safetensors.htseal", 100);
  const auto bad = run("verify m.safetensors --json");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.out, HasSubstr(R"("verdict":"bad_seal")"));
  EXPECT_THAT(run("verify m.safetensors").err, HasSubstr("[bad_seal]"));
}

TEST_F(CliSeal, seal_keeps_a_seal_that_shows_damage_unless_forced) {
  ASSERT_EQ(run("seal m.safetensors").status, 0);
  EXPECT_EQ(run("seal m.safetensors").status, 0) << "an intact file may be sealed again";
  EXPECT_EQ(run("seal m.safetensors --algorithm sha256").status, 0);
  const auto before = text_of("m.safetensors.htseal");
  flip("m.safetensors", 5'000'000);
  for (const std::string algorithm : {"crc64nvme", "sha256"}) {
    const auto refused = run("seal m.safetensors --json --algorithm " + algorithm);
    EXPECT_EQ(refused.status, 1) << refused.err;
    EXPECT_TRUE(is_json(refused.out)) << refused.out;
    EXPECT_THAT(refused.out, HasSubstr(R"("code":"checksum_mismatch")"));
    EXPECT_THAT(refused.out, HasSubstr("checksum mismatch in tensor "));
    EXPECT_THAT(refused.out, HasSubstr("--force"));
    EXPECT_EQ(text_of("m.safetensors.htseal"), before);
  }
  EXPECT_EQ(run("verify m.safetensors").status, 1);
  EXPECT_EQ(run("seal m.safetensors --force").status, 0);
  EXPECT_EQ(run("verify m.safetensors").status, 0);
  flip("m.safetensors.htseal", 100);
  EXPECT_EQ(run("seal m.safetensors").status, 1) << "a damaged seal cannot prove that the file is intact";
  EXPECT_EQ(run("seal m.safetensors --force").status, 0);
}

TEST_F(CliSeal, a_sealed_file_that_is_replaced_gets_a_new_seal) {
  for (const std::string algorithm : {"crc64nvme", "sha256"}) {
    ASSERT_EQ(run("synth s.safetensors --preset llama-1b --size 3M --seed 1 --force -q").status, 0);
    ASSERT_EQ(run("seal s.safetensors --force --algorithm " + algorithm).status, 0);
    ASSERT_EQ(run("synth s.safetensors --preset llama-1b --size 3M --seed 2 --force -q").status, 0);
    const auto synthesized = run("verify s.safetensors --json");
    EXPECT_THAT(synthesized.out, HasSubstr(R"("verdict":"intact")"));
    EXPECT_THAT(synthesized.out, HasSubstr(algorithm));
    const auto converted = run("convert m.safetensors s.safetensors --force");
    EXPECT_EQ(converted.status, 0) << converted.err;
    EXPECT_THAT(converted.err, Not(HasSubstr("hint")));
    EXPECT_THAT(run("verify s.safetensors --json").out, HasSubstr(R"("verdict":"intact")"));
    EXPECT_THAT(run("verify s.safetensors --json").out, HasSubstr(algorithm));
  }
}

TEST_F(CliSeal, a_huge_splat_is_refused_and_can_be_interrupted) {
  testing::write_file(folder_ / "s.irpa",
                      testing::irpa_file({{.name = "s", .length = std::uint64_t{1} << 50, .pattern = "ab"}}));
  for (const std::string verb : {"seal", "hash --per-tensor"}) {
    EXPECT_EQ(run(verb + " s.irpa").status, 0) << "crc64nvme computes splats without reading their bytes";
    for (const std::string algorithm : {"xxh3-128", "sha256"}) {
      const auto refused = run(verb + " s.irpa --algorithm " + algorithm);
      EXPECT_EQ(refused.status, 2);
      EXPECT_THAT(refused.err, HasSubstr("tensor 's': splat has 1125899906842624 bytes"));
      EXPECT_THAT(refused.err, HasSubstr("--max-splat"));
      EXPECT_THAT(refused.err, HasSubstr("--algorithm crc64nvme"));
    }
  }
  std::filesystem::remove(folder_ / "s.irpa.htseal");
  const auto before = folder_.names();
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(outcome_once_catching(
                  signal, {"hash", "--per-tensor", "s.irpa", "--algorithm", "sha256", "--max-splat", "2048T"})
                  .status,
              130);
    EXPECT_EQ(
        outcome_once_catching(signal, {"seal", "s.irpa", "--algorithm", "xxh3-128", "--max-splat", "2048T"})
            .status,
        130);
  }
  EXPECT_EQ(folder_.names(), before);
}

TEST_F(CliSeal, verify_checks_the_checksum_stored_in_the_file) {
  const auto good = run("verify m.ht --json");
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("\"seal\":null"));
  flip("m.ht", 130);
  EXPECT_EQ(run("verify m.ht").status, 1);
}

TEST_F(CliSeal, hash_equals_other_tools) {
  const auto sha = output_of("sha256sum m.safetensors");
  ASSERT_FALSE(sha.empty());
  EXPECT_EQ(run("hash m.safetensors --algorithm sha256").out, sha);
  const auto xxh = output_of("xxhsum -H2 m.safetensors");
  if (xxh.empty()) {
    std::printf("skipped: comparison with xxhsum, which is not installed\n");
  } else {
    EXPECT_EQ(run("hash m.safetensors --algorithm xxh3-128").out, xxh);
  }
}

TEST_F(CliSeal, sha256_needs_openssl) {
  const auto refusal = [&] {
    const auto refused = run("hash m.ht --algorithm sha256 --json", "LD_LIBRARY_PATH=.");
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.out, HasSubstr(R"("code":"unsupported_platform","rule":"sha256_needs_openssl")"));
    return refused.out;
  };
  testing::write_file(folder_ / "libcrypto.so.3", "not a library");
  EXPECT_THAT(refusal(), HasSubstr("SHA-256 needs OpenSSL: libcrypto.so.3 cannot be loaded"));
  Dl_info libc{};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &libc), 0);
  std::filesystem::remove(folder_ / "libcrypto.so.3");
  std::filesystem::create_symlink(libc.dli_fname, folder_ / "libcrypto.so.3");
  EXPECT_THAT(refusal(), HasSubstr("SHA-256 needs OpenSSL: libcrypto.so.3 lacks EVP_MD_CTX_new"));
}

TEST_F(CliSeal, openssl_provides_sha256) {
  write_safetensors("m.safetensors", R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  // Requires an implementation of SHA-256 from a provider that is not loaded.
  std::ofstream(folder_ / "openssl.cnf") << "openssl_conf = a\n[a]\nalg_section = b\n[b]\n"
                                            "default_properties = provider=none\n";
  const auto refused = run("hash m.safetensors --algorithm sha256 --json", "OPENSSL_CONF=openssl.cnf");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr(R"("rule":"openssl_provides_sha256")"));
}

TEST_F(CliSeal, hash_of_tensors_covers_only_their_bytes) {
  const auto found = run("hash m.ht --per-tensor --json");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(is_json(found.out)) << found.out;
  const auto bytes = testing::read_file(folder_ / "m.ht");
  const auto alone = to_hex(Digest(crc64nvme(Bytes(bytes).subspan(128))));
  EXPECT_THAT(found.out, HasSubstr(R"("tensors":[{"name":"m","digest":")" + alone + "\"}]"));
  EXPECT_THAT(found.out,
              StartsWith("{\"digest\":\"" + to_hex(Digest(crc64nvme(bytes))) + "\",\"base64\":\""));
  EXPECT_THAT(run("hash m.ht --per-tensor").out, StartsWith(alone + "  m\n"));
  EXPECT_EQ(run("hash m.ht --per-tensor --jsonl").out, R"({"name":"m","digest":")" + alone + "\"}\n");
}

TEST_F(CliSeal, load_verifies_the_seal) {
  const auto unsealed = run("load m.safetensors --verify");
  EXPECT_EQ(unsealed.status, 1);
  EXPECT_THAT(unsealed.err, HasSubstr("[not_sealed]"));
  ASSERT_EQ(run("seal m.safetensors").status, 0);
  for (const std::string strategy : {"automatic", "mapped", "read", "staged"}) {
    const auto good = run("load m.safetensors --verify --json --strategy " + strategy);
    EXPECT_EQ(good.status, 0) << good.out << good.err;
    EXPECT_THAT(good.out, HasSubstr("\"verified\":true"));
  }
  EXPECT_THAT(run("load m.safetensors --verify").out, HasSubstr("verified 9M"));
  flip("m.safetensors", 5'000'000);
  for (const std::string strategy : {"automatic", "mapped", "read", "staged"}) {
    const auto bad = run("load m.safetensors --verify --json --strategy " + strategy);
    EXPECT_EQ(bad.status, 1);
    EXPECT_THAT(bad.out, HasSubstr(R"("code":"checksum_mismatch")"));
  }
  EXPECT_EQ(run("load m.safetensors").status, 0);
}

TEST_F(CliSeal, progress_is_shown_on_request) {
  for (const std::string verb : {"seal", "hash", "verify"}) {
    const auto shown = run(verb + " m.safetensors --progress=always");
    EXPECT_EQ(shown.status, 0) << shown.err;
    EXPECT_FALSE(shown.err.empty()) << verb;
    EXPECT_EQ(run(verb + " m.safetensors --progress=never").err, "");
  }
}

}  // namespace
}  // namespace ht::seal_test
