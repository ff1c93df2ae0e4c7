/** Who changed an object last, from the audit log. */
import { ApiError } from './client.ts';
import type { Api } from './scope.ts';

export type LastChange = { by: string; at: string };

const ENTRIES = 100;

/** Returns null when the audit log does not tell, or the member may not read it. */
export async function findLastChange(api: Api, targetId: string): Promise<LastChange | null> {
  try {
    const { data } = await api.call('listAuditEvents', { query: { limit: ENTRIES } });
    const entry = data.find(({ target_id: target }) => target === targetId);
    if (entry === undefined) return null;
    return { by: entry.actor.name ?? 'a command on the machine', at: entry.created_at };
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}
