/**
 * `letterhaus release`: ends the hold of a restored installation. Before that, `--dry-run` shows what would
 * go out, and what the lost machine may have sent after the backup.
 */
import { type Command } from 'commander';
import {
  countHeldMail,
  countHeldWebhooks,
  endHold,
  type HeldMail,
  type Hold,
  listMailInDoubt,
  type MailInDoubt,
  readHold,
} from '../../backup/store/hold.ts';
import type { Database } from '../../database/database.ts';
import { type Cli, type Outcome, runnable } from '../../cli/command.ts';
import { withStore } from '../../cli/store.ts';
import { shortTime, table } from '../../cli/table.ts';

export function describeRelease(release: Command, cli: Cli): void {
  runnable(
    release
      .option('--dry-run', 'show what would go out, and release nothing')
      .option('--except-in-doubt', 'hold back what the lost machine may have sent'),
    cli,
    { examples: ['release --dry-run', 'release --except-in-doubt', 'release'], run },
  );
}

type Options = { dryRun?: true; exceptInDoubt?: true };

function run(cli: Cli, options: Options): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const hold = await readHold(db);
    if (hold === null) return NOT_ON_HOLD;
    const waiting = await readWaiting(db);
    if (options.dryRun === true) return show(cli, hold, waiting);
    const exceptInDoubt = options.exceptInDoubt === true;
    const isEnded = await db.transaction((tx) => endHold(tx, { exceptInDoubt }));
    return isEnded ? released(cli, waiting, exceptInDoubt) : NOT_ON_HOLD;
  });
}

const NOT_ON_HOLD: Outcome = {
  failed: 'The installation is not on hold.',
  code: 'conflict',
  exitCode: 1,
};

type Waiting = { mail: HeldMail[]; webhooks: number; inDoubt: MailInDoubt[] };

/** In text; --json has all of these. */
const SHOWN_MAX = 20;
const LISTED_MAX = 10_000;

async function readWaiting(db: Database): Promise<Waiting> {
  const [mail, webhooks, inDoubt] = await Promise.all([
    countHeldMail(db),
    countHeldWebhooks(db),
    listMailInDoubt(db, LISTED_MAX),
  ]);
  return { mail, webhooks, inDoubt };
}

function show(cli: Cli, hold: Hold, { mail, webhooks, inDoubt }: Waiting): Outcome {
  const lines = [
    `On hold since ${shortTime(hold.since)}, restored from a backup of ${shortTime(hold.backupTakenAt)}.`,
    '',
    tableOfMail(cli, mail),
    '',
    `${webhooks} webhooks wait. Receivers know those that were posted before by their id.`,
  ];
  if (inDoubt.length > 0) lines.push('', ...linesInDoubt(cli, inDoubt));
  return {
    data: {
      object: 'hold',
      since: hold.since.toISOString(),
      backup_taken_at: hold.backupTakenAt?.toISOString() ?? null,
      mail: mail.map(({ projectId, project, environment, inDoubt: doubtful, unsent, held }) => ({
        project_id: projectId,
        project,
        environment,
        in_doubt: doubtful,
        unsent,
        held,
      })),
      webhooks,
      in_doubt: inDoubt.map(({ emailId, to, dueAt, attempts }) => ({
        email_id: emailId,
        to,
        due_at: dueAt.toISOString(),
        attempts,
      })),
    },
    text: lines.join('\n'),
  };
}

function tableOfMail(cli: Cli, mail: readonly HeldMail[]): string {
  return table(cli, {
    columns: [{ heading: 'PROJECT', cut: 1 }, 'MODE', 'IN DOUBT', 'NOT SENT', 'HELD'],
    rows: mail.map(({ project, environment, inDoubt, unsent, held }) => [
      project,
      environment,
      String(inDoubt),
      String(unsent),
      String(held),
    ]),
    none: 'No mail waits.',
  });
}

function linesInDoubt(cli: Cli, inDoubt: readonly MailInDoubt[]): string[] {
  const shown = inDoubt.slice(0, SHOWN_MAX);
  const more = inDoubt.length - shown.length;
  return [
    'In doubt: due when the backup was made or since, so the lost machine may have sent it.',
    table(cli, {
      columns: ['EMAIL', { heading: 'TO', cut: 1 }, 'DUE'],
      rows: shown.map(({ emailId, to, dueAt }) => [emailId, to, shortTime(dueAt)]),
      none: '',
    }),
    ...(more > 0 ? [`… and ${more} more (--json lists ${LISTED_MAX})`] : []),
  ];
}

function released({ program }: Cli, { mail }: Waiting, exceptInDoubt: boolean): Outcome {
  const sum = (count: (one: HeldMail) => number) =>
    mail.reduce((total, one) => total + count(one), 0);
  const inDoubt = sum((one) => one.inDoubt);
  const sent = sum((one) => one.unsent) + (exceptInDoubt ? 0 : inDoubt);
  const text = [
    `Released: nodes begin to send within seconds, ${sent} recipients wait.`,
    ...(exceptInDoubt && inDoubt > 0
      ? [
          `${inDoubt} recipients in doubt are held in the queue:`,
          `  ${program} queue release --email <id>   sends one, perhaps a second time`,
        ]
      : []),
  ];
  return {
    data: { object: 'release', released: sent, held_back: exceptInDoubt ? inDoubt : 0 },
    text: text.join('\n'),
  };
}
