// A window over a model that need not fit into memory: its layers come and go under a byte budget.
//
//   auto window = HT_TRY(ht::Window::open(model, {.budget_bytes = std::uint64_t{8} << 30}));
//   for (int pass = 0; pass < passes; ++pass) {
//     for (std::size_t i = 0; i < window.size(); ++i) {
//       HT_TRY(window.enter(i));  // its bytes are in memory now, and the next layer's are on their way
//       for (const auto t : window.layer(i).tensors) compute(model, model.catalog()[t].name);
//     }
//   }
//
// Layers are entered in order, over and over: after the last comes the first. While one is computed with,
// those that follow are fetched, and those that are behind make room. Any other order is right too, and waits
// more often. What fits into memory stays there: everything where the budget holds everything; else as many
// layers as leave room for two of those that come and go, spread evenly, so that the disk is never idle and
// each pass reads no more than it must. Once every layer was entered, nothing is allocated any more.
//
// Who owns, and how long: a Window keeps the model's files open by itself and owns none of their bytes. It
// acts on pages of the files' mappings; tensors are looked up in the model as ever, and one of a layer that
// was dropped can still be used: it comes from the disk again, page by page, and outside of the budget. When
// the Window goes, what is in memory stays there; `ht::evict` takes it away.
//
// Which threads: one thread at a time uses a Window. One of its own fetches and drops meanwhile; it ends with
// the Window, within one piece of 16 MiB.
//
// What the budget means, honestly: it bounds the bytes of layers that this window has brought in and not yet
// dropped. The page cache belongs to the system, which may take pages back earlier, and then touching them
// waits for the disk. A dropped layer leaves this process; it leaves the page cache where no other process
// has it mapped. Pages that a layer shares with what is no part of it stay, a few at each end, and on some
// file systems the page cache lets go of up to 2 MiB at once or not at all. Bytes that are in two layers
// count for each. What is in memory is not looked at again: compute under `ht::guarded` where a file may be
// cut meanwhile.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

namespace ht::inline v1 {

struct WindowOptions {
  /// Which tensors are in a layer, and in which: a pattern as of `NameFilter` in which `{}` stands for the
  /// layer's number, "blk.{}.*", which is one of the first 16 numbers of the name. Without `{}`, the number
  /// is the first part of the name between dots that is one; empty, this is so for all tensors. Tensors of no
  /// layer are left alone. A number has at most 64 bits, and what has more is none; 007 is 7.
  std::string layers{};
  /// The most bytes of layers in memory at once; 0 is 7/8 of what is available when the window is opened.
  std::uint64_t budget_bytes = 0;
  /// Whether layers that are dropped leave the page cache, too, and not this process alone. If they do not,
  /// the system keeps them as long as it likes, and where it does, they are soon back.
  bool empty_page_cache = true;
  /// Whether a thread of its own works while the caller computes. Without it, or where the system gives none,
  /// all of it is done in `enter`.
  bool own_thread = true;
  /// Ends it: from then on, `enter` is `cancelled`, also one that waits.
  std::stop_token stop{};
};

class Window {
 public:
  struct Layer {
    /// As it stands in the names.
    std::uint64_t number = 0;
    /// What its tensors have in the files, what they share counted once; splats have none.
    std::uint64_t bytes = 0;
    /// Whether it stays in memory once it was entered.
    bool stays = false;
    /// Their numbers in the catalog, in file order. There as long as the window is.
    std::span<const std::size_t> tensors{};
  };
  struct Statistics {
    std::uint64_t fetched_bytes = 0;
    std::uint64_t dropped_bytes = 0;
    /// How often `enter` was called, and how often what it asked for was not in memory yet.
    std::uint64_t enters = 0;
    std::uint64_t waits = 0;
  };

  /// Reads nothing yet. `not_found` where no tensor is in a layer, `bad_state` where the pattern has two
  /// numbers, `budget_too_small` where the largest layer is larger than the budget, and what looking up a
  /// tensor of a layer would fail with.
  [[nodiscard]] static Result<Window> open(const Model& model, const WindowOptions& options = {});

  // One that was moved from has no layers, and can be assigned to or go.
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();

  /// How many layers there are, in the order of their numbers, which may have gaps.
  [[nodiscard]] std::size_t size() const noexcept;
  /// The nth of them; there must be one.
  [[nodiscard]] const Layer& layer(std::size_t index) const noexcept;
  /// The budget as it was set, or chosen.
  [[nodiscard]] std::uint64_t budget_bytes() const noexcept;

  /// Waits until the layer's bytes are in memory. They are not dropped before the next `enter`. What went
  /// wrong with fetching a layer ahead is told when that one is entered, and what went wrong with dropping by
  /// the next `enter`; then none is entered, and entering again tries again. `out_of_bounds` where there is
  /// no such layer.
  [[nodiscard]] Result<void> enter(std::size_t index);

  /// Since it was opened.
  [[nodiscard]] Statistics statistics() const;

 private:
  class Shell;
  explicit Window(std::unique_ptr<Shell> shell) noexcept;
  std::unique_ptr<Shell> shell_;
};

}  // namespace ht::inline v1
