// Memory that is free, and whether the machine really has it.
#pragma once

namespace ht::bench {

/// A host beneath a virtual machine takes back what is free there, and gives it again, page by page and
/// slowly, when it is touched. Takes nine tenths of what is free, touches it, and gives it back: who takes
/// memory in the next moments finds it as on a machine of its own.
void touch_free_memory();

}  // namespace ht::bench
