/** `letterhaus tls-report`: TLS results per recipient domain, with the result types of RFC 8460. */
import { InvalidArgumentError, type Command } from 'commander';
import { readTlsResults, type TlsCount } from '../../delivery/route/transport-security-store.ts';
import { type Cli, type Outcome, parseRecipientDomain, runnable } from '../command.ts';
import { table } from '../table.ts';
import { withStore } from '../store.ts';

const ROWS_MAX = 10_000;

export function describeTlsReport(command: Command, cli: Cli): void {
  runnable(command, cli, {
    examples: ['tls-report', 'tls-report --domain example.org --days 30'],
    run,
  })
    .option('--domain <domain>', 'only recipients at this domain', parseRecipientDomain)
    .option('--days <number>', 'the last 1 to 30 days; 1 is today (UTC)', parseDays, 7);
}

function run(cli: Cli, options: { domain?: string; days: number }): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const { domain = null, days } = options;
    const rows = await readTlsResults(db, { domain, days, limit: ROWS_MAX + 1 });
    const shown = rows.slice(0, ROWS_MAX);
    return {
      data: { object: 'list', data: shown.map(resultJson), has_more: rows.length > ROWS_MAX },
      text: table(cli, {
        columns: ['DAY', { heading: 'DOMAIN', cut: 1 }, 'POLICY', 'RESULT', 'SESSIONS'],
        rows: shown.map(({ day, domain: name, policy, result, sessions }) => [
          day,
          name,
          policy,
          result,
          String(sessions),
        ]),
        none: {
          says: `No TLS session with ${domain ?? 'a mail server'} is counted for these days; only live mail makes them.`,
          toDo: 'To count 30 days',
          command: 'tls-report --days 30',
        },
      }),
    };
  });
}

function resultJson({ day, domain, policy, result, sessions }: TlsCount & { day: string }) {
  return { object: 'tls_result', day, domain, policy, result, sessions };
}

function parseDays(text: string): number {
  const days = /^\d{1,2}$/.test(text) ? Number(text) : 0;
  if (days >= 1 && days <= 30) return days;
  throw new InvalidArgumentError('Write a number from 1 to 30.');
}
