/** Saves the filtered audit log as CSV or JSON. It is read page by page, up to ROWS_MAX entries. */
import type { AuditEvent } from '../../../../sdk/src/api.ts';
import { saveAs } from '../../api/download.ts';
import type { Query } from '../../api/operations.ts';
import type { Api } from '../../api/scope.ts';
import { csvOf } from '../../lib/csv.ts';

export type AuditQuery = Query<'listAuditEvents'>;

const PAGE = 100;
const ROWS_MAX = 10_000;

const COLUMNS: readonly (readonly [title: string, cell: (event: AuditEvent) => string])[] = [
  ['id', ({ id }) => id],
  ['created_at', ({ created_at: at }) => at],
  ['action', ({ action }) => action],
  ['object', ({ object_type: type }) => type],
  ['target_id', ({ target_id: id }) => id ?? ''],
  ['target_name', ({ target_name: name }) => name ?? ''],
  ['actor_type', ({ actor }) => actor.type],
  ['actor_id', ({ actor }) => actor.id ?? ''],
  ['actor_name', ({ actor }) => actor.name ?? ''],
  ['project_id', ({ project_id: id }) => id ?? ''],
  ['environment', ({ environment }) => environment ?? ''],
  ['network', ({ network }) => network ?? ''],
  ['request_id', ({ request_id: id }) => id ?? ''],
];

export async function saveAuditLog(
  api: Api,
  query: AuditQuery,
  format: 'csv' | 'json',
): Promise<{ rows: number; isCut: boolean }> {
  const { events, isCut } = await readAll(api, query);
  const text = format === 'csv' ? csvOf(COLUMNS, events) : `${JSON.stringify(events, null, 2)}\n`;
  const type = format === 'csv' ? 'text/csv' : 'application/json';
  saveAs(new Blob([text], { type }), `audit-log.${format}`);
  return { rows: events.length, isCut };
}

async function readAll(
  api: Api,
  query: AuditQuery,
): Promise<{ events: AuditEvent[]; isCut: boolean }> {
  const events: AuditEvent[] = [];
  for (;;) {
    const after = events.at(-1)?.id;
    const page = await api.call('listAuditEvents', { query: { ...query, limit: PAGE, after } });
    events.push(...page.data);
    if (!page.has_more) return { events, isCut: false };
    if (events.length >= ROWS_MAX) return { events, isCut: true };
  }
}
