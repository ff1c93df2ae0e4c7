/**
 * The standbys of the database server: a fail-over to one loses no accepted mail when commits wait for a synchronous
 * standby. Looks from the primary, so a standby that is gone shows as an unused replication slot, or not at all.
 */
import { withDatabase } from '../check-context.ts';
import { readReplication, type Replication, type Standby } from './replication-store.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

/** From this lag on, the alarm LetterhausReplicationLag fires, too (docs/alarms/replication-lag.md). */
const LAG_HIGH_S = 60;
const LAG_URGENT_S = 600;
/** A standby that replays nothing reports no lag in seconds, so the WAL that it lacks counts, too. */
const LAG_HIGH_BYTES = 1024 ** 3;
const LOOK = 'psql -c "select * from pg_stat_replication"';

export const DATABASE_REPLICATION: Check = {
  id: 'database_replication',
  title: 'Standbys of the database',
  run: (context) =>
    withDatabase(context, async ({ db }) => {
      return judgeReplication(await readReplication(db));
    }),
};

export function judgeReplication(replication: Replication): readonly Finding[] {
  if (replication.isStandby) return [unknown('The server is a standby: ask the primary.')];
  const findings = [
    ...judgeSynchronous(replication),
    ...replication.standbys.flatMap(judgeLag),
    ...replication.unusedSlots.map(judgeSlot),
  ];
  return findings.length > 0 ? findings : [green(summaryOf(replication))];
}

function summaryOf({ standbys }: Replication): string {
  if (standbys.length === 0) return 'The server has no standby, and commits wait for none.';
  const synchronous = standbys.filter(isSynchronous).map(({ name }) => name);
  return `Commits wait for ${synchronous.join(', ')}, and no standby is behind.`;
}

function isSynchronous({ syncState }: Standby): boolean {
  return syncState === 'sync' || syncState === 'quorum';
}

function judgeSynchronous({ synchronousNames, standbys }: Replication): Finding[] {
  if (standbys.some(({ syncState }) => syncState === null)) {
    return [
      unknown('The user of DATABASE_URL may not see the state of the standbys.', {
        remedy: 'Give it the role pg_monitor.',
        command: 'psql -c "grant pg_monitor to letterhaus"',
      }),
    ];
  }
  if (standbys.some(isSynchronous)) return [];
  if (synchronousNames !== '') {
    return [
      red(`Commits wait for a standby (${synchronousNames}), and none of them is connected.`, {
        meaning: 'No mail is accepted, and no outcome is stored.',
        remedy: 'Start the standby, or remove it from synchronous_standby_names.',
        command: LOOK,
      }),
    ];
  }
  if (standbys.length === 0) return [];
  return [
    yellow(`No commit waits for a standby: all (${standbys.length}) are asynchronous.`, {
      meaning: 'A fail-over loses the last commits, and with them accepted mail.',
      remedy:
        'Set synchronous_standby_names, or synchronous_mode of Patroni (docs/several-machines.md).',
      command: LOOK,
    }),
  ];
}

function judgeLag({ name, lagS, lagBytes }: Standby): Finding[] {
  const isFar = (lagBytes ?? 0) >= LAG_HIGH_BYTES;
  if ((lagS ?? 0) < LAG_HIGH_S && !isFar) return [];
  const report = (lagS ?? 0) >= LAG_URGENT_S ? red : yellow;
  const megabytes = Math.round((lagBytes ?? 0) / 1024 ** 2);
  return [
    report(`The standby ${name} is ${Math.round(lagS ?? 0)} s and ${megabytes} MB behind.`, {
      meaning: 'A fail-over to it takes that much longer, and loses mail if it is asynchronous.',
      remedy: 'Look at its disk, at the network, and at queries that block replay there.',
      command: LOOK,
    }),
  ];
}

function judgeSlot({ name, keptBytes, isLost }: Replication['unusedSlots'][number]): Finding {
  if (isLost) {
    return yellow(`The standby of the slot ${name} has missed WAL that is gone.`, {
      meaning: 'It cannot catch up, so it is no standby any more.',
      remedy: 'Make the standby anew from a base backup, or drop the slot.',
      command: `psql -c "select pg_drop_replication_slot('${name}')"`,
    });
  }
  const megabytes = Math.round(keptBytes / 1024 ** 2);
  return yellow(`No standby uses the slot ${name}, which keeps ${megabytes} MB of WAL.`, {
    meaning: 'The standby is gone, and its WAL fills the disk of the primary.',
    remedy: 'Start the standby. If it will not come back, drop the slot.',
    command: `psql -c "select pg_drop_replication_slot('${name}')"`,
  });
}
