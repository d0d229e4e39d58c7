// The verbs ls, show and doctor with GGUF, IRPA and NPY files.
#include <array>

#include "cli/program_test.hpp"

namespace ht::formats_test {
namespace {

constexpr std::array<std::int64_t, 2> square{2, 2};

TEST_F(Cli, ls_show_and_doctor_accept_gguf) {
  CatalogBuilder builder("gguf");
  ASSERT_TRUE(builder.metadata().add("general.architecture", "llama"));
  ASSERT_TRUE(builder.metadata().add("llama.block_count", std::uint32_t{1}));
  ASSERT_TRUE(builder.metadata().add("llama.scale", 0.5F));
  constexpr std::array<std::int64_t, 2> block{1, 32};
  ASSERT_TRUE(builder.add({.name = "blk.0.w", .dtype = I16::tag, .dims = square, .bytes = 8}));
  ASSERT_TRUE(
      builder.add({.name = "blk.0.q", .encoding = find_encoding("Q4_0")->tag, .dims = block, .bytes = 18}));
  write_encoded("g.gguf", std::move(builder).build().value());

  EXPECT_EQ(
      run("ls g.gguf --json").out,
      R"({"format":"gguf","files":["g.gguf"],"tensors":[)"
      R"({"name":"blk.0.w","dtype":"I16","shape":[2,2],"bytes":8,"offset":224,"file":"g.gguf"},)"
      R"({"name":"blk.0.q","dtype":"Q4_0","shape":[1,32],"bytes":18,"offset":256,"file":"g.gguf"}],)"
      R"("metadata":{"general.architecture":"llama","llama.block_count":1,"llama.scale":0.5},"total_bytes":26,"parameters":36})"
      "\n");
  EXPECT_EQ(
      run("show g.gguf blk.0.w --json").out,
      R"({"name":"blk.0.w","dtype":"I16","shape":[2,2],"values_shape":[2,2],"values":[256,770,1284,1798]})"
      "\n");
  EXPECT_EQ(run("doctor g.gguf --json").out,
            R"({"path":"g.gguf","format":"gguf","readable":true,"files":["g.gguf"],"missing_files":[],)"
            R"("tensors":2,"bytes":26,"problems":[]})"
            "\n");
}

TEST_F(Cli, ls_show_and_doctor_accept_irpa) {
  CatalogBuilder builder("irpa");
  constexpr std::array<std::int64_t, 1> three{3};
  const std::array one_as_f32{std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x3F}};
  ASSERT_TRUE(builder.add({.name = "data", .dtype = I16::tag, .dims = square, .bytes = 8}));
  ASSERT_TRUE(
      builder.add({.name = "ones", .dtype = F32::tag, .dims = three, .bytes = 12, .splat = one_as_f32}));
  ASSERT_TRUE(builder.add({.name = "blob", .bytes = 5}));
  write_encoded("a.irpa", std::move(builder).build().value());

  EXPECT_EQ(run("ls a.irpa --json").out,
            R"({"format":"irpa","files":["a.irpa"],"tensors":[)"
            R"({"name":"data","dtype":"I16","shape":[2,2],"bytes":8,"offset":512,"file":"a.irpa"},)"
            R"({"name":"ones","dtype":"F32","shape":[3],"bytes":12,"offset":null,"file":"a.irpa"},)"
            R"({"name":"blob","dtype":null,"shape":null,"bytes":5,"offset":576,"file":"a.irpa"}],)"
            R"("metadata":{},"total_bytes":25,"parameters":null})"
            "\n");
  EXPECT_EQ(run("show a.irpa data --json").out,
            R"({"name":"data","dtype":"I16","shape":[2,2],"values_shape":[2,2],"values":[256,770,1284,1798]})"
            "\n");
  EXPECT_EQ(run("show a.irpa ones --json").out,
            R"({"name":"ones","dtype":"F32","shape":[3],"values_shape":[3],"values":[1,1,1]})"
            "\n");
  const auto doctor = run("doctor a.irpa --json");
  EXPECT_EQ(doctor.status, 1);
  EXPECT_EQ(
      doctor.out,
      R"({"path":"a.irpa","format":"irpa","readable":true,"files":["a.irpa"],"missing_files":[],)"
      R"("tensors":3,"bytes":25,"problems":[{"severity":"warning","code":"bad_dtype",)"
      R"("rule":"entries_have_dtype_and_shape","path":"a.irpa","tensor":"blob","offset":null,)"
      R"("message":"1 tensor has neither dtype nor shape; the first is 'blob'",)"
      R"("hint":"convert the original model again with `htensor convert MODEL FILE.irpa`, which writes both"}]})"
      "\n");
}

TEST_F(Cli, ls_show_and_doctor_accept_npy) {
  CatalogBuilder builder("npy");
  // The tensor is in Fortran order, but its values are shown in row-major order.
  constexpr std::array<std::int64_t, 2> wide{2, 3};
  ASSERT_TRUE(builder.add(
      {.name = "n", .dtype = I16::tag, .dims = wide, .order = ElementOrder::column_major, .bytes = 12}));
  write_encoded("n.npy", std::move(builder).build().value());

  EXPECT_EQ(run("ls n.npy --json").out,
            R"({"format":"npy","files":["n.npy"],"tensors":[)"
            R"({"name":"n","dtype":"I16","shape":[2,3],"bytes":12,"offset":128,"file":"n.npy"}],)"
            R"("metadata":{},"total_bytes":12,"parameters":6})"
            "\n");
  EXPECT_EQ(run("show n.npy n --json").out, R"({"name":"n","dtype":"I16","shape":[2,3],"values_shape":[2,3],)"
                                            R"("values":[256,1284,2312,770,1798,2826]})"
                                            "\n");
  EXPECT_EQ(run("doctor n.npy --json").out,
            R"({"path":"n.npy","format":"npy","readable":true,"files":["n.npy"],"missing_files":[],)"
            R"("tensors":1,"bytes":12,"problems":[]})"
            "\n");
}

}  // namespace
}  // namespace ht::formats_test
