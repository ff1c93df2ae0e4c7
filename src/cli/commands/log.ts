/** `letterhaus log`: what happened to an address, in all projects, from the database and not from log files. */
import { type Command, InvalidArgumentError } from 'commander';
import type { Environment } from '../../core/scope.ts';
import { addressKey, explainAddress, parseAddress, type Address } from '../../mail/address.ts';
import {
  type AddressLogEntry,
  readAddressLog,
  type SuppressedIn,
  suppressedIn,
} from '../../suppressions/address-log-store.ts';
import { listAllProjects } from '../../accounts/projects/project-store.ts';
import type { Queryable } from '../../database/database.ts';
import { type Cli, type Failure, isFailure, type Outcome, runnable } from '../command.ts';
import { chooseProject, modeOption, withStore } from '../store.ts';
import { shortTime, table } from '../table.ts';

const LIMIT_MAX = 1_000;

type LogOptions = { to: Address; project?: string; mode?: Environment; limit: number };

export function describeLog(log: Command, cli: Cli): void {
  runnable(log, cli, {
    examples: ['log --to jo@example.org', 'log --to jo@example.org --limit 200 --json'],
    notes:
      'Newest first, of all projects unless --project names one. `emails show` has the whole timeline of an email. ' +
      'The exit code is 1 when nothing is known of the address.',
    run: show,
  })
    .requiredOption('--to <address>', 'what happened to this recipient', parseRecipient)
    .option('--project <name>', 'only of this project: its name or id')
    .addOption(modeOption())
    .option('--limit <n>', `how many, up to ${LIMIT_MAX}`, parseLimit, 50);
}

function show(cli: Cli, { to, project, mode, limit }: LogOptions): Promise<Outcome> {
  return withStore(cli, async ({ db, config }) => {
    const projects = await projectsOf(db, project);
    if (isFailure(projects)) return projects;
    const about = {
      projectIds: [...projects.keys()],
      environment: mode ?? null,
      addressKey: addressKey(to),
    };
    const found = await readAddressLog(db, { ...about, limit: limit + 1 });
    const lists = await suppressedIn(db, about);
    const entries = found.slice(0, limit);
    const isUnknown = entries.length === 0 && lists.length === 0;
    const shown = { to, entries, lists, projects };
    return {
      data: {
        object: 'list',
        address: to,
        suppressed: lists.map((one) => suppressedJson(one, projects)),
        data: entries.map((entry) => entryJson(entry, projects)),
        has_more: found.length > limit,
      },
      text: isUnknown ? unknownText(to, config.retention.metadataH) : logText(cli, shown),
      ...(isUnknown && { exitCode: 1 as const }),
    };
  });
}

/** Names by id. */
async function projectsOf(
  db: Queryable,
  wanted: string | undefined,
): Promise<Map<string, string> | Failure> {
  const chosen = wanted === undefined ? await listAllProjects(db) : await chooseProject(db, wanted);
  if (!Array.isArray(chosen) && isFailure(chosen)) return chosen;
  return new Map([chosen].flat().map(({ id, name }) => [id, name]));
}

function unknownText(to: string, metadataH: number | null): string {
  const kept =
    metadataH === null
      ? ''
      : ` Emails are kept for ${Math.round(metadataH / 24)} days; older ones are forgotten.`;
  return `Nothing is known of ${to}: no email to it is stored, and no list of suppressions has it.${kept}`;
}

type Shown = {
  to: string;
  entries: readonly AddressLogEntry[];
  lists: readonly SuppressedIn[];
  projects: ReadonlyMap<string, string>;
};

function logText(cli: Cli, { to, entries, lists, projects }: Shown): string {
  const suppressed = lists.map(({ projectId, environment, isSimulated, ...entry }) => {
    const until = entry.expiresAt === null ? '' : ` until ${shortTime(entry.expiresAt)}`;
    const where = `${projects.get(projectId)} (${environment})`;
    const why = `${entry.reason}, since ${shortTime(entry.createdAt)}${until}`;
    const still = isSimulated ? '; an address of the simulator gets mail all the same' : '';
    return `${to} is suppressed in ${where}: ${why}${still}.\n`;
  });
  const lines = table(cli, {
    columns: [
      'TIME',
      { heading: 'PROJECT', cut: 1 },
      'MODE',
      'EMAIL',
      'WHAT',
      { heading: 'WHY', wraps: true },
    ],
    rows: entries.map((entry) => [
      shortTime(entry.at),
      projects.get(entry.projectId) ?? entry.projectId,
      entry.environment,
      entry.emailId ?? '-',
      entry.type,
      whyText(entry),
    ]),
    none: `No email to ${to} is stored.`,
  });
  return `${suppressed.join('')}${suppressed.length > 0 ? '\n' : ''}${lines}`;
}

/** The reply with its server, else the advice; of a suppression its reason and who did it. */
function whyText({ code, message, mx, category, advice, reason, by }: AddressLogEntry): string {
  if (reason !== null) return `${reason}, by ${by}`;
  const reply =
    message === null ? advice : [code, message].filter((part) => part !== null).join(' ');
  const server = mx === null ? '' : ` (${mx})`;
  const kind = category === null ? '' : `${category}: `;
  return reply === null ? '' : `${kind}${reply}${server}`;
}

function entryJson(entry: AddressLogEntry, projects: Shown['projects']): object {
  return {
    at: entry.at.toISOString(),
    project_id: entry.projectId,
    project: projects.get(entry.projectId),
    environment: entry.environment,
    email_id: entry.emailId,
    type: entry.type,
    code: entry.code,
    enhanced_code: entry.enhancedCode,
    message: entry.message,
    mx: entry.mx,
    category: entry.category,
    blame: entry.blame,
    advice: entry.advice,
    reason: entry.reason,
    by: entry.by,
  };
}

function suppressedJson(one: SuppressedIn, projects: Shown['projects']): object {
  return {
    project_id: one.projectId,
    project: projects.get(one.projectId),
    environment: one.environment,
    reason: one.reason,
    created_at: one.createdAt.toISOString(),
    expires_at: one.expiresAt?.toISOString() ?? null,
    source_email_id: one.sourceEmailId,
    simulated: one.isSimulated,
  };
}

function parseRecipient(text: string): Address {
  const address = parseAddress(text);
  if (address !== null) return address;
  throw new InvalidArgumentError(`${explainAddress(text)}.`);
}

function parseLimit(text: string): number {
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw new InvalidArgumentError(`Write a number from 1 to ${LIMIT_MAX}.`);
}
