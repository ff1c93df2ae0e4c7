/** `letterhaus audit`: lists who changed what, newest first. */
import type { Command } from 'commander';
import type { AuditEvent } from '../../../sdk/src/api.ts';
import { type Api, type ApiOptions, apiRunnable, listData } from '../../cli/api.ts';
import type { Cli, CommandResult } from '../../cli/command.ts';
import { countUpTo, takeRows, PAGE_MAX } from '../../cli/lists.ts';
import { shortTime, table } from '../../cli/table.ts';

const LIMIT_MAX = 10_000;

export function describeAudit(audit: Command, cli: Cli): void {
  apiRunnable(audit, cli, {
    examples: ['audit', 'audit --limit 500 --json'],
    environment: 'none',
    run: list,
  })
    .option('--after <id>', 'only entries older than this one')
    .option('--limit <n>', `how many, up to ${LIMIT_MAX}`, countUpTo(LIMIT_MAX), 30);
}

type Options = ApiOptions & { after?: string; limit: number };

async function list({ cli, client }: Api, { after, limit }: Options): Promise<CommandResult> {
  const query = { after, limit: Math.min(limit + 1, PAGE_MAX) };
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
      event.target_id ?? '-',
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
