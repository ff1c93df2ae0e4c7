/** How much mail a project stores, in words, and from when on that is a warning (src/accounts/limits/storage.ts has the same part). */
import type { Limits } from '../../../../sdk/src/api.ts';

const STORAGE_WARNING = 0.8;

export function isNearlyFull({ max_bytes: max, used_bytes: used }: Limits['storage']): boolean {
  return max !== null && used >= max * STORAGE_WARNING;
}
