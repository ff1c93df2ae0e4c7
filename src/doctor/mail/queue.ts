/** Checks the queue, and lists the open conditions that the running service has reported to its operator. */
import { ageText } from '../../backup/backup-age.ts';
import type { ConditionType } from '../../core/operator-events.ts';
import { MAIL_WAITS } from '../../core/thresholds.ts';
import { readQueueDepth } from '../../delivery/queue-control/depth-store.ts';
import { readProviderStates } from '../../delivery/shaping/provider-state-store.ts';
import { listConditions } from '../../operator/condition-store.ts';
import { withTables } from '../check-context.ts';
import { type Finding, green, red, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const CONDITIONS_SHOWN = 20;
const CONDITIONS_READ = 1_000;

export const QUEUE: Check = {
  id: 'queue',
  title: 'Queue',
  run: (context) =>
    withTables(context, async (db) => {
      const depths = await readQueueDepth(db, []);
      const waiting = depths.reduce((sum, { depth }) => sum + depth, 0);
      const onHold = depths.reduce((sum, { held }) => sum + held, 0);
      const oldestMs = 1_000 * Math.max(0, ...depths.map((depth) => depth.oldestS));
      const findings: Finding[] = [];
      if (oldestMs > MAIL_WAITS.soonMs) {
        const report = oldestMs > MAIL_WAITS.urgentMs ? red : yellow;
        findings.push(
          report(`Mail that is due has waited for ${ageText(oldestMs)}.`, {
            meaning: `Mail to ${recipients(waiting)} waits, and some of it too long.`,
            remedy: 'Check that the service runs, and which provider the mail waits for.',
            command: 'letterhaus queue',
          }),
        );
      }
      if (onHold > 0) {
        findings.push(
          yellow(`Mail to ${recipients(onHold)} is on hold.`, {
            meaning:
              'It is not sent until it is released or its pause ends, and it expires meanwhile.',
            remedy:
              'Release or drop it, or end the pause of a domain: letterhaus projects set-reputation-alert PROJECT --resume.',
            command: 'letterhaus queue',
          }),
        );
      }
      const states = await readProviderStates(db);
      for (const { provider, state, reason } of states) {
        if (state !== 'suspended') continue;
        findings.push(
          yellow(`${provider} is suspended: ${reason ?? 'no server answered'}.`, {
            subject: provider,
            meaning:
              'Mail to this provider waits. The service probes the provider with one message at a time, and sends the rest when a server answers.',
            remedy:
              'If the suspension lasts, read the check `outgoing_port_25`, or try the provider now.',
            command: 'letterhaus providers',
          }),
        );
      }
      if (findings.length > 0) return findings;
      return [green(`Mail to ${recipients(waiting)} waits, and none for too long.`)];
    }),
};

function recipients(count: number): string {
  return count === 1 ? '1 recipient' : `${count} recipients`;
}

/** Conditions in which mail is refused, stopped or lost. */
const URGENT: ReadonlySet<ConditionType> = new Set([
  'provider.blocked',
  'disk.low',
  'database.full',
  'secret_key.unusable',
  'dns.unavailable',
  'reconciliation.difference',
]);

export const CONDITIONS: Check = {
  id: 'conditions',
  title: 'Open conditions',
  run: (context) =>
    withTables(context, async (db) => {
      const open = await listConditions(db, CONDITIONS_READ);
      // The doctor opened the others, and finds their reasons again.
      const others = open.filter(({ type }) => !type.startsWith('doctor.'));
      const conditions = others.slice(0, CONDITIONS_SHOWN);
      if (conditions.length === 0) return [green('The service has reported nothing to act on.')];
      return conditions.map(({ type, subject, message, remedy, since }) =>
        (URGENT.has(type) ? red : yellow)(message, {
          subject,
          meaning: `The condition ${type} is open since ${since.toISOString().slice(0, 16)}Z.`,
          remedy,
          command: 'letterhaus attention',
        }),
      );
    }),
};
