/** `letterhaus audit`: lists who changed what, newest first. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { AuditEvent } from '../../../sdk/src/api.ts';
import { type Api, type ApiOptions, apiRunnable, listData } from '../../cli/api.ts';
import type { Cli, CommandResult } from '../../cli/command.ts';
import { countUpTo, takeRows, PAGE_MAX } from '../../cli/lists.ts';
import { shortTime, table } from '../../cli/table.ts';
import { AUDIT_OBJECTS, type AuditObject } from '../../core/audit/audit-objects.ts';

const LIMIT_MAX = 10_000;

export function describeAudit(audit: Command, cli: Cli): void {
  apiRunnable(audit, cli, {
    examples: ['audit', 'audit --limit 500 --json', 'audit --object api_key --from 2026-11-01'],
    environment: 'none',
    run: list,
  })
    .option('--after <id>', 'only entries older than this one')
    .option('--action <action>', 'only this action, such as deleteDomain')
    .addOption(
      new Option('--object <object>', 'only changes of objects of this type').choices(
        AUDIT_OBJECTS,
      ),
    )
    .option('--target <id>', 'only changes of this object')
    .option('--from <time>', 'only changes at this time or later', timeOf)
    .option('--to <time>', 'only changes before this time', timeOf)
    .option(
      '--limit <n>',
      `maximum number of entries, up to ${LIMIT_MAX}`,
      countUpTo(LIMIT_MAX),
      30,
    );
}

type Options = ApiOptions & {
  after?: string;
  limit: number;
  action?: string;
  object?: AuditObject;
  target?: string;
  from?: string;
  to?: string;
};

function timeOf(text: string): string {
  const time = new Date(text);
  if (!Number.isNaN(time.getTime())) return time.toISOString();
  throw new InvalidArgumentError('Write a day or a time, such as 2026-11-21.');
}

async function list({ cli, client }: Api, options: Options): Promise<CommandResult> {
  const { after, limit, action, object, target, from, to } = options;
  const filter = { action, object, target_id: target, from, to };
  const query = { ...filter, after, limit: Math.min(limit + 1, PAGE_MAX) };
  const { rows, hasMore } = await takeRows(client.auditLog.list(query), limit);
  const text = table(cli, {
    columns: [
      'TIME',
      'ACTION',
      { heading: 'BY', cut: 2 },
      'ENVIRONMENT',
      { heading: 'TARGET', cut: 1 },
      'NETWORK',
    ],
    rows: rows.map((event) => [
      shortTime(event.created_at),
      event.action,
      actorText(event),
      event.environment ?? '-',
      event.target_name ?? event.target_id ?? '-',
      event.network ?? '-',
    ]),
    none: 'No changes are recorded yet.',
  });
  return { data: listData(rows, hasMore), text };
}

function actorText({ actor: { type, id, name } }: AuditEvent): string {
  if (type === 'command') return 'a command';
  return name ?? id ?? '-';
}
