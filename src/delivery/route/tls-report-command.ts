/** `letterhaus tls-report`: TLS results per recipient domain, with the result types of RFC 8460. */
import type { Command } from 'commander';
import { type Api, type ApiOptions, apiRunnable } from '../../cli/api.ts';
import { type Cli, type CommandResult, parseDomainArgument } from '../../cli/command.ts';
import { countUpTo } from '../../cli/lists.ts';
import { table } from '../../cli/table.ts';

const DAYS_MAX = 30;

export function describeTlsReport(command: Command, cli: Cli): void {
  apiRunnable(command, cli, {
    examples: ['tls-report', 'tls-report --domain example.org --days 30'],
    environment: 'none',
    run,
  })
    .option('--domain <domain>', 'only recipients at this domain', parseDomainArgument)
    .option('--days <number>', 'the last 1 to 30 days; 1 is today (UTC)', countUpTo(DAYS_MAX), 7);
}

type Options = ApiOptions & { domain?: string; days: number };

async function run({ cli, client }: Api, { domain, days }: Options): Promise<CommandResult> {
  const results = await client.operator.tlsResults({ domain, days });
  const text = table(cli, {
    columns: ['DAY', { heading: 'DOMAIN', cut: 1 }, 'POLICY', 'RESULT', 'SESSIONS'],
    rows: results.data.map(({ day, domain: name, policy, result, sessions }) => [
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
  });
  return { data: results, text };
}
