/** Who changed an object last, from the audit log. */
import { ApiError } from './client.ts';
import type { Api } from './scope.ts';

export type LastChange = { by: string; at: string };

/** Entries of the audit log: those of an object, or of an action that has no object. */
export type AuditQuery = { target_id: string } | { action: string };

/** Returns null when the audit log has no entry, or the member may not read it. */
export async function findLastChange(api: Api, of: AuditQuery): Promise<LastChange | null> {
  try {
    const query = { ...of, limit: 1 };
    const [entry] = (await api.call('listAuditEvents', { query })).data;
    if (entry === undefined) return null;
    const { member_name: member, name } = entry.actor;
    return { by: member ?? name ?? 'a command on the machine', at: entry.created_at };
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}
