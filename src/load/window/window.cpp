#include <htensor/load/load.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/fault_registry.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "io/port/port.hpp"
#include "io/strategy/automatic.hpp"
#include "load/window/window_layers.hpp"
#include "load/window/window_machine.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {

using window::LayerPages;
using window::LayerTable;

namespace {

Error no_layers(const Catalog& catalog, std::string_view pattern) {
  Error error(ErrorCode::not_found, "pattern_matches_a_layer",
              pattern.empty() ? format_text("no tensor name has a dot-separated part that is a number")
                              : format_text("pattern '{}' matches no layer", to_utf8(pattern)));
  if (catalog.empty()) return std::move(error).with_hint("open a model that has tensors");
  return std::move(error).with_hint(
      format_text("set WindowOptions::layers to a pattern such as 'blk.{{}}.*', where {{}} is the layer "
                  "number; the first tensor is '{}'",
                  to_utf8(catalog[0].name)));
}

Error too_small(const LayerTable& table, std::span<const std::uint64_t> layer_bytes, std::uint64_t budget) {
  const auto largest = static_cast<std::size_t>(std::ranges::max_element(layer_bytes) - layer_bytes.begin());
  return Error(ErrorCode::budget_too_small, "budget_holds_the_largest_layer",
               format_text("layer {} has {} bytes but the budget is {}", table.rows[largest].number,
                           layer_bytes[largest], budget))
      .with_hint(
          format_text("set WindowOptions::budget_bytes to at least {}, or to {} to prefetch the next layer",
                      layer_bytes[largest], window::two_largest(layer_bytes)));
}

}  // namespace

// Performs the effects of the state machine, on its own thread if it has one, and returns their results as
// events. The thread is the last member and so is joined before the others are destroyed.
class Window::Shell {
 public:
  Shell(const Model& model, io::MappedStrategy& mapped, std::string path, LayerTable table,
        window::Ledger ledger, std::uint64_t budget, const WindowOptions& options)
      : model_(model),
        path_(std::move(path)),
        table_(std::move(table)),
        pages_(model_.catalog(), table_, mapped, options.drop_page_cache),
        budget_(budget),
        stop_(options.stop) {
    layers_.reserve(table_.rows.size());
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      layers_.push_back({.number = table_.rows[i].number,
                         .bytes = table_.rows[i].bytes,
                         .is_kept = ledger.layers[i].is_kept,
                         .tensors = table_.tensors_of(i)});
    }
    state_ = window::Idle{std::move(ledger)};
  }

  void start() {
    try {
      thread_ = std::jthread([this](const std::stop_token& thread_stop) { work(thread_stop); });
    } catch (const std::system_error&) {
      // Without a thread, `enter` does all work.
      return;
    }
  }

  [[nodiscard]] const std::vector<Layer>& layers() const noexcept { return layers_; }
  [[nodiscard]] std::uint64_t budget() const noexcept { return budget_; }
  [[nodiscard]] Statistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  Result<void> enter(std::size_t index) {
    if (index >= layers_.size()) {
      return fail(Error(ErrorCode::out_of_bounds, "layer_index_is_within_bounds",
                        format_text("layer index {} is out of range; the window has {} layers", index,
                                    layers_.size()))
                      .at_path(path_)
                      .with_hint("count layers from 0 in the order of the window"));
    }
    std::unique_lock lock(mutex_);
    apply_stop();
    ++statistics_.enters;
    feed(window::Enter{index});
    if (!answer_) ++statistics_.waits;
    if (thread_.joinable()) {
      answered_.wait(lock, stop_, [&] { return answer_.has_value(); });
      if (!answer_) apply_stop();
    } else {
      while (!answer_) perform(lock, {});
    }
    auto answer = std::exchange(answer_, std::nullopt);
    if (answer->error) return fail(*std::move(answer->error));
    return {};
  }

 private:
  void work(const std::stop_token& thread_stop) {
    fault::unblock_signal();
    std::unique_lock lock(mutex_);
    while (effect_ready_.wait(lock, thread_stop, [&] { return effect_.has_value(); }) &&
           !thread_stop.stop_requested()) {
      perform(lock, thread_stop);
    }
  }

  // Performs the pending effect. The lock is released meanwhile.
  void perform(std::unique_lock<std::mutex>& lock, const std::stop_token& thread_stop) {
    const auto effect = *std::exchange(effect_, std::nullopt);
    lock.unlock();
    const bool fetches = effect.action == window::Action::fetch;
    auto done = without_bad_alloc(
        [&] { return fetches ? pages_.fetch(effect.layer, stop_, thread_stop) : pages_.drop(effect.layer); });
    lock.lock();
    if (done) {
      (fetches ? statistics_.fetched_bytes : statistics_.dropped_bytes) += layers_[effect.layer].bytes;
    }
    apply_stop();
    feed(done ? window::Event(window::Done{}) : window::EffectFailed{std::move(done).error()});
  }

  void apply_stop() {
    if (!stop_.stop_requested()) return;
    feed(window::Stop{Error(ErrorCode::cancelled, "work_is_completed",
                            format_text("stopped: {} bytes fetched", statistics_.fetched_bytes))
                          .at_path(path_)});
  }

  void feed(window::Event&& event) {
    auto step = window::step(std::move(state_), std::move(event));
    state_ = std::move(step.next);
    if (step.effect) {
      effect_ = step.effect;
      effect_ready_.notify_one();
    }
    if (step.answer) {
      answer_ = std::move(step.answer);
      answered_.notify_one();
    }
  }

  const Model model_;  // keeps the files open
  const std::string path_;
  const LayerTable table_;
  LayerPages pages_;  // used only by the thread that performs effects
  std::vector<Layer> layers_;
  const std::uint64_t budget_;
  const std::stop_token stop_;

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable_any effect_ready_;
  std::condition_variable_any answered_;
  window::State state_;
  std::optional<window::Effect> effect_;
  std::optional<window::Answer> answer_;
  Statistics statistics_;
  std::jthread thread_;
};

Window::Window(std::shared_ptr<Shell> shell) noexcept : shell_(std::move(shell)) {}
Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

Result<std::uint64_t> available_memory(io::Port* port) {
  const auto available = (port != nullptr ? *port : io::system_port()).available_memory();
  if (available) return *available;
  return fail(Error(ErrorCode::unsupported_platform, "available_memory_is_known",
                    "available memory is unknown on this system")
                  .with_cause(available.error())
                  .with_hint("set a budget in bytes"));
}

Result<Window> Window::open(const Model& model, const WindowOptions& options) {
  return without_bad_alloc([&]() -> Result<Window> {
    const auto& state = ModelAccess::state(model);
    const auto at_model = [&](Error error) { return fail(std::move(error).at_path(state.opened.native())); };
    const auto pattern = window::LayerPattern::from(options.layers);
    if (!pattern) return at_model(pattern.error());
    auto table = window::layers_of(*state.catalog, *pattern);
    if (table.rows.empty()) return at_model(no_layers(*state.catalog, options.layers));
    for (const auto index : table.tensors) {
      const Entry entry = (*state.catalog)[index];
      if (!entry.is_splat()) HT_TRY(ModelAccess::check_available(state, entry));
    }
    auto budget = options.budget_bytes;
    if (budget == 0) {
      const auto available = available_memory(state.port);
      if (!available) return at_model(available.error());
      budget = io::usable_memory(*available);
    }
    std::vector<std::uint64_t> bytes;
    bytes.reserve(table.rows.size());
    for (const auto& row : table.rows) bytes.push_back(row.bytes);
    if (std::ranges::max(bytes) > budget) return at_model(too_small(table, bytes, budget));
    auto shell = std::make_shared<Shell>(model, *state.mapped, state.opened.native(), std::move(table),
                                         window::make_ledger(bytes, budget), budget, options);
    if (options.use_worker) shell->start();
    return Window(std::move(shell));
  });
}

std::size_t Window::size() const noexcept { return shell_ ? shell_->layers().size() : 0; }
const Window::Layer& Window::layer(std::size_t index) const noexcept { return shell_->layers()[index]; }
std::uint64_t Window::budget_bytes() const noexcept { return shell_ ? shell_->budget() : 0; }
Window::Statistics Window::statistics() const { return shell_ ? shell_->statistics() : Statistics{}; }

Result<void> Window::enter(std::size_t index) {
  if (!shell_) {
    return fail(Error(ErrorCode::bad_state, "window_is_not_moved_from", "window was moved from")
                    .with_hint("use the window that it was moved to"));
  }
  return without_bad_alloc([&] { return shell_->enter(index); });
}

}  // namespace ht::inline v1
