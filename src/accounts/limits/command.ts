/** `letterhaus limits`: shows the limits of a project. `projects set-limit` and its siblings set them. */
import type { Command } from 'commander';
import type { Limits } from '../../../sdk/src/api.ts';
import { type Api, apiRunnable, listData } from '../../cli/api.ts';
import type { Cli, CommandResult } from '../../cli/command.ts';
import { facts, table } from '../../cli/table.ts';
import { showPeriod } from '../../core/retention.ts';
import { inMegabytes } from '../storage/stored-bytes.ts';

export function describeLimits(limits: Command, cli: Cli): void {
  apiRunnable(limits, cli, {
    examples: ['limits', 'limits --project shop --environment live'],
    environment: 'both',
    run: show,
  });
}

async function show(api: Api): Promise<CommandResult> {
  const parts = await api.all();
  const found = await Promise.all(
    parts.map(async ({ client, environment }) => ({
      ...(await client.projects.limits()),
      environment,
    })),
  );
  const lines = table(api.cli, {
    columns: [
      'ENVIRONMENT',
      'LIMIT',
      { heading: 'COUNTS', cut: 1 },
      'PER WINDOW',
      'LEFT',
      'SET BY',
    ],
    rows: found.flatMap(({ environment, limits }) =>
      limits.map(
        ({ category, counts, limit, window_s: windowS, remaining, is_own: isOwn, variable }) => [
          environment,
          category,
          counts,
          `${limit} in ${windowS} s`,
          String(remaining),
          isOwn ? 'the project' : variable,
        ],
      ),
    ),
    none: '',
  });
  const data = found.length === 1 ? found[0] : listData(found);
  const others = found.slice(0, 1).map(othersText);
  return { data, text: [lines, ...others].join('\n\n') };
}

function othersText({ domains, storage, retention }: Limits): string {
  const most = storage.max_bytes === null ? '' : ` of ${inMegabytes(storage.max_bytes)}`;
  return facts([
    ['domains', `at most ${domains.max} in each environment`],
    ['stored', `${inMegabytes(storage.used_bytes)}${most}`],
    ['content', `kept for ${showPeriod(retention.content_hours)}`],
    ['metadata', `kept for ${showPeriod(retention.metadata_hours)}`],
  ]);
}
