"""CRC-64/NVME, bit by bit, for scripts that create files with checksums."""

MASK = (1 << 64) - 1


def crc64nvme(data):
    crc = MASK
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x9A6C9329AC4BC9B5 if crc & 1 else 0)
    return crc ^ MASK
