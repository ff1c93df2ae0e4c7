/** `letterhaus attention`: what an operator has to act on, with since when and what to do. */
import type { Command } from 'commander';
import { type Condition, listConditions } from './condition-store.ts';
import { type Cli, type Outcome, runnable } from '../cli/command.ts';
import { withStore } from '../cli/store.ts';
import { shortTime, table } from '../cli/table.ts';
import { ageText } from '../backup/age.ts';
import { placeOf } from '../backup/places/locate.ts';
import { PlaceProblem, timeOf } from '../backup/places/place.ts';
import type { Config } from '../config/config.ts';
import { S3Problem } from '../net/s3/problems.ts';

const SHOWN_MAX = 1_000;

export function describeAttention(attention: Command, cli: Cli): void {
  runnable(attention, cli, {
    examples: ['attention', 'attention --json'],
    notes: 'The exit code is 1 when there is anything.',
    run: list,
  });
}

function list(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db, config }) => {
    const open = await listConditions(db, SHOWN_MAX);
    const backup = await newestBackup(cli, config);
    return {
      data: {
        object: 'list',
        data: open.map(toJson),
        has_more: open.length === SHOWN_MAX,
        ...(backup && { backup: backup.data }),
      },
      text: `${backup ? `${backup.text}\n` : ''}${table(cli, {
        columns: [
          'SINCE',
          'TYPE',
          { heading: 'SUBJECT', cut: 1 },
          { heading: 'WHAT TO DO', wraps: true },
        ],
        rows: open.map(({ since, type, subject, message, remedy }) => [
          shortTime(since),
          type,
          subject,
          `${message} ${remedy}`,
        ]),
        none: 'Nothing needs attention.',
      })}`,
      ...(open.length > 0 && { exitCode: 1 as const }),
    };
  });
}

function toJson({ type, subject, message, remedy, details, since, lastSeen }: Condition): object {
  return { type, subject, message, remedy, details, since, last_seen: lastSeen };
}

type NewestBackup = { data: object; text: string };

/** Looked for where the service puts them; null: it makes none. */
async function newestBackup({ world }: Cli, { backup }: Config): Promise<NewestBackup | null> {
  if (backup.to === null) return null;
  const place = placeOf(backup.to, { access: backup.s3, world });
  try {
    const file = (await place.list()).at(-1);
    const atMs = file === undefined ? null : timeOf(file);
    if (file === undefined || atMs === null) {
      return {
        data: { to: place.name, newest: null },
        text: `There is no backup in ${place.name}.`,
      };
    }
    const ageMs = world.now() - atMs;
    return {
      data: { to: place.name, newest: file, age_seconds: Math.round(ageMs / 1_000) },
      text: `The newest backup is ${ageText(ageMs)} old: ${file}`,
    };
  } catch (error) {
    if (!(error instanceof PlaceProblem || error instanceof S3Problem)) throw error;
    const text = `The backups cannot be listed: ${error.message}`;
    return { data: { to: place.name, problem: error.message }, text };
  }
}
