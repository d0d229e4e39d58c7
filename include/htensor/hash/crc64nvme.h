/* CRC-64/NVME for other languages: as fast as the memory, on any processor. */
#ifndef HTENSOR_HASH_CRC64NVME_H
#define HTENSOR_HASH_CRC64NVME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The sum of `size` bytes; `data` may be null where there are none. The sum of "123456789" is
   0xae8b14860a799888. May be called from many threads at once. */
uint64_t htensor_crc64nvme(const void* data, size_t size);

#ifdef __cplusplus
}
#endif

#endif
