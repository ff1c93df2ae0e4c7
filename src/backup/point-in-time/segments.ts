/**
 * WAL files and WAL positions. PostgreSQL writes WAL into segments of 16 MB by default. Their names have timeline and
 * number: `00000001000000000000002A`. A position counts bytes since the cluster was created, as two hexadecimal
 * numbers: `0/2A000028`.
 */
import { BackupDamaged } from '../format.ts';

/** Properties of a cluster. They are the same for all files of a series. */
export type WalShape = { system: string; timeline: number; segmentBytes: number };

export function positionOf(lsn: string): bigint {
  const [, high = '', low = ''] = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/i.exec(lsn) ?? [];
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`);
}

export function lsnOf(position: bigint): string {
  return `${(position >> 32n).toString(16)}/${(position & 0xffff_ffffn).toString(16)}`.toUpperCase();
}

export function segmentAt(position: bigint, { segmentBytes }: WalShape): bigint {
  return position / BigInt(segmentBytes);
}

export function segmentName(segment: bigint, { timeline, segmentBytes }: WalShape): string {
  const segmentsPerLog = 0x1_0000_0000n / BigInt(segmentBytes);
  const parts = [BigInt(timeline), segment / segmentsPerLog, segment % segmentsPerLog];
  return parts
    .map((part) => part.toString(16).padStart(8, '0'))
    .join('')
    .toUpperCase();
}

/** Offsets in the header of the first page (xlog_internal.h), in the byte order of the machine. */
const PAGE_ADDRESS_AT = 8;
const SYSTEM_AT = 24;

/**
 * Checks that a segment has the header of this cluster and position. PostgreSQL reuses segment files, which keep their
 * old content until it is overwritten.
 * @throws BackupDamaged
 */
export function requireSegment(bytes: Buffer, segment: bigint, shape: WalShape): void {
  const isWhole = bytes.length === shape.segmentBytes;
  const address = segment * BigInt(shape.segmentBytes);
  if (
    isWhole &&
    bytes.readBigUInt64LE(PAGE_ADDRESS_AT) === address &&
    bytes.readBigUInt64LE(SYSTEM_AT) === BigInt(shape.system)
  ) {
    return;
  }
  throw new BackupDamaged(
    `The WAL file ${segmentName(segment, shape)} does not belong to this database.`,
  );
}
