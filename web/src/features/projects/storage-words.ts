/**
 * The share of used storage from which a project gets a warning (the same as in src/accounts/storage/stored-bytes.ts).
 */
import type { Limits } from '../../../../sdk/src/api.ts';

const STORAGE_WARNING = 0.8;

export function isNearlyFull({ max_bytes: max, used_bytes: used }: Limits['storage']): boolean {
  return max !== null && used >= max * STORAGE_WARNING;
}
