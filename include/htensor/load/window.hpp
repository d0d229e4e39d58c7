// A window over a model that may exceed memory: layers are fetched and dropped within a byte budget.
//
//   auto window = HT_TRY(ht::Window::open(model, {.budget_bytes = std::uint64_t{8} << 30}));
//   for (int pass = 0; pass < passes; ++pass) {
//     for (std::size_t i = 0; i < window.size(); ++i) {
//       HT_TRY(window.enter(i));  // its bytes are in memory; the next layer is being fetched
//       for (const auto t : window.layer(i).tensors) compute(model, model.catalog()[t].name);
//     }
//   }
//
// Enter layers in order, and the first again after the last. While the caller computes with one layer, the
// next layers are fetched and past layers are dropped. Other orders are correct but wait more often. If the
// budget holds all layers, all stay in memory. Otherwise as many layers stay as leave room to fetch and drop
// the two largest. The staying layers are spread evenly, so that the disk is never idle and each pass reads
// as little as possible. After every layer was entered once, `enter` does not allocate.
//
// Ownership: a Window keeps the model's files open and owns no tensor bytes. It acts on pages of the files'
// mappings; look up tensors in the model as usual. A tensor of a dropped layer can still be used: its pages
// are read from disk on access, outside of the budget. The destructor leaves resident pages in memory;
// `ht::evict` removes them.
//
// Threads: a Window is not thread-safe. Its own worker thread fetches and drops layers; the destructor joins
// it and waits for at most one piece of 16 MiB.
//
// Budget: it limits the bytes of layers that this window has fetched and not yet dropped. The system may
// reclaim page cache pages earlier; access then waits for the disk. A dropped layer leaves this process, and
// leaves the page cache unless another process has it mapped. Pages that a layer shares with other data stay,
// a few at each end. Some file systems drop page cache only in units of up to 2 MiB. Bytes in two layers
// count for each. Resident pages are not checked again: compute under `ht::guarded` if a file may be
// truncated meanwhile.
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
  /// Assigns tensors to layers by name: a `NameFilter` pattern in which `{}` is the layer number, such as
  /// "blk.{}.*". `{}` matches one of the first 16 numbers in the name. Without `{}`, the layer number is the
  /// first dot-separated part of the name that is a number. An empty pattern does this for all tensors.
  /// Tensors without a layer are ignored. Numbers above 64 bits do not count; 007 is 7.
  std::string layers{};
  /// The maximum bytes of layers in memory at once; 0 is 7/8 of the memory available at `open`.
  std::uint64_t budget_bytes = 0;
  /// Whether dropped layers also leave the page cache. If false, the system may keep them there, and fetching
  /// them again is fast while it does.
  bool empty_page_cache = true;
  /// Whether a worker thread fetches and drops while the caller computes. If false, or if the thread cannot
  /// be started, `enter` does that work.
  bool own_thread = true;
  /// Cancels the window: `enter` then returns `cancelled`, also a call that is waiting.
  std::stop_token stop{};
};

class Window {
 public:
  struct Layer {
    /// The number in the tensor names.
    std::uint64_t number = 0;
    /// The bytes of its tensors in the files, shared bytes counted once; splats have 0.
    std::uint64_t bytes = 0;
    /// Whether the layer stays in memory after it was entered.
    bool stays = false;
    /// Indices of its tensors in the catalog, in file order. Valid as long as the window.
    std::span<const std::size_t> tensors{};
  };
  struct Statistics {
    std::uint64_t fetched_bytes = 0;
    std::uint64_t dropped_bytes = 0;
    /// Calls of `enter`, and calls whose layer was not yet in memory.
    std::uint64_t enters = 0;
    std::uint64_t waits = 0;
  };

  /// Opens a window without reading data. `not_found` if no tensor is in a layer, `bad_state` if the pattern
  /// has two `{}`, `budget_too_small` if the largest layer exceeds the budget, and the errors of looking up a
  /// tensor of a layer.
  [[nodiscard]] static Result<Window> open(const Model& model, const WindowOptions& options = {});

  // A moved-from Window has no layers and can only be assigned to or destroyed.
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();

  /// The number of layers. Layers are ordered by their numbers, which may have gaps.
  [[nodiscard]] std::size_t size() const noexcept;
  /// `index` must be less than `size`.
  [[nodiscard]] const Layer& layer(std::size_t index) const noexcept;
  /// The budget from the options, or the default.
  [[nodiscard]] std::uint64_t budget_bytes() const noexcept;

  /// Waits until the layer's bytes are in memory. They are not dropped before the next `enter`. An error of
  /// prefetching a layer is returned when that layer is entered; an error of dropping is returned by the next
  /// `enter`. After an error no layer is entered; call `enter` again to retry. `out_of_bounds` if there is no
  /// such layer.
  [[nodiscard]] Result<void> enter(std::size_t index);

  /// Counts since `open`.
  [[nodiscard]] Statistics statistics() const;

 private:
  class Shell;
  explicit Window(std::unique_ptr<Shell> shell) noexcept;
  std::unique_ptr<Shell> shell_;
};

}  // namespace ht::inline v1
