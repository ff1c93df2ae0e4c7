/** Compression of WAL and base backups. */
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress } from 'node:zlib';

/** Level 1, because WAL is written all the time and mail needs the cores. Includes a checksum of the content. */
export const COMPRESSION = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
};
const compressZstd = promisify(zstdCompress);

export const compress = (bytes: Buffer): Promise<Buffer> => compressZstd(bytes, COMPRESSION);
export const decompress = promisify(zstdDecompress);
