/** Checks the newest backup: its age, and whether it would survive the loss of this machine's disk. */
import { stat } from 'node:fs/promises';
import { ageText } from '../../backup/backup-age.ts';
import { BACKUP_AGE } from '../../core/thresholds.ts';
import { DAY_MS } from '../../lib/units.ts';
import { findNewestBackup } from '../../backup/newest-backup.ts';
import { isInBucket } from '../../backup/places/bucket-url.ts';
import { type CheckContext, withTables } from '../check-context.ts';
import { readNotedBackup } from '../doctor-store.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

/** Between two backups that nobody has scheduled. */
const EXPECTED_EVERY_MS = DAY_MS;
const COMMAND = 'letterhaus backup';

export const BACKUP: Check = {
  id: 'backup',
  title: 'Backup',
  run(context) {
    const { to } = context.config.backup;
    return to === null ? checkNoted(context) : checkScheduled(context, to);
  },
};

async function checkScheduled(context: CheckContext, to: string): Promise<readonly Finding[]> {
  const { config, world } = context;
  const newest = await findNewestBackup(config.backup, world);
  if (newest === null) return checkNoted(context);
  if ('problem' in newest) {
    const remedy = 'Correct the place or its credentials (docs/backup.md).';
    const found = `The backups in ${newest.place} cannot be listed: ${newest.problem}.`;
    return [unknown(found, { subject: newest.place, remedy })];
  }
  if (!('ageMs' in newest)) {
    return [
      red(`There is no backup in ${newest.place}.`, {
        subject: newest.place,
        meaning: 'A lost disk loses all mail, keys and suppressions.',
        remedy: 'Start the service, which makes one within minutes, or make one now.',
        command: `${COMMAND} ${to}`,
      }),
    ];
  }
  const { everyMs } = config.backup;
  return [
    judgeAge(newest.ageMs, { place: newest.place, everyMs }),
    ...(await onSameDisk(context, to)),
  ];
}

/** Without a schedule, `letterhaus backup` notes in the database when it ended. */
function checkNoted(context: CheckContext): Promise<readonly Finding[]> {
  const { databaseUrl, backup } = context.config;
  return withTables(context, async (db) => {
    const { at, place, now } = await readNotedBackup(db);
    if (at !== null) {
      const ageMs = now.getTime() - at.getTime();
      return [judgeAge(ageMs, { place: place ?? '', everyMs: EXPECTED_EVERY_MS })];
    }
    if (backup.pointInTime.to !== null) {
      return [green(`The database is archived to ${backup.pointInTime.to}.`)];
    }
    const isExternal = databaseUrl !== null;
    return [
      (isExternal ? yellow : red)('No backup of this installation is known.', {
        meaning: 'A lost disk loses all mail, keys and suppressions.',
        remedy: isExternal
          ? 'Have the server backed up, or set LETTERHAUS_BACKUP_TO (docs/backup.md).'
          : 'Set LETTERHAUS_BACKUP_TO and LETTERHAUS_BACKUP_PASSPHRASE (docs/backup.md).',
        command: COMMAND,
      }),
    ];
  });
}

function judgeAge(ageMs: number, { place, everyMs }: { place: string; everyMs: number }): Finding {
  const found = `The newest backup is ${ageText(ageMs)} old (${place}).`;
  if (ageMs <= BACKUP_AGE.soonIntervals * everyMs) return green(found, place);
  return (ageMs > BACKUP_AGE.urgentMs ? red : yellow)(found, {
    subject: place,
    meaning: 'A lost disk loses everything since then.',
    remedy: 'The log says why none was made since. Make one now.',
    command: COMMAND,
  });
}

async function onSameDisk({ config }: CheckContext, to: string): Promise<Finding[]> {
  if (config.databaseUrl !== null || isInBucket(to)) return [];
  const devices = await Promise.all([stat(to), stat(config.dataDir)]).catch(() => null);
  if (devices === null || devices[0].dev !== devices[1].dev) return [];
  return [
    yellow(`The backups in ${to} are on the disk of the database.`, {
      subject: to,
      meaning: 'A lost disk loses both.',
      remedy: 'Write backups to another disk, another machine or a bucket (docs/backup.md).',
    }),
  ];
}
