/** Formats a diagnosis (emails/diagnosis/diagnosis.ts) as text. */
import type { Diagnosis } from '../../../sdk/src/api.ts';
import type { Cli } from '../../cli/command.ts';
import { facts, printable, shortTime } from '../../cli/table.ts';
import { routeText, senderText } from './dry-run-text.ts';

export function diagnosisText(
  cli: Cli,
  { summary, sender, recipients, ...email }: Diagnosis,
): string {
  const { authentication } = sender;
  const state = sender.status === 'verified' ? '' : ` The sending domain is ${sender.status}.`;
  return [
    `${summary}${state}`,
    facts([
      ['Created', shortTime(email.created_at)],
      ['Scheduled', email.scheduled_at && shortTime(email.scheduled_at)],
      ['Expires', shortTime(email.expires_at)],
    ]),
    ...recipients.map(recipientText),
    ...(authentication ? [senderText(cli, authentication)] : []),
  ].join('\n\n');
}

function recipientText(recipient: Diagnosis['recipients'][number]): string {
  const { address, status, what_happened, held_by, route, next_step, last_attempt } = recipient;
  const about = facts([
    ['Recipient', `${address} (${status})`],
    ['Last', what_happened],
    ['Waits for', held_by && `${held_by.limit}: ${held_by.message}`],
    ['DNS', route && routeText(route)],
    ['Next step', next_step],
  ]);
  const dialogue = (last_attempt?.dialogue ?? []).map((line) => `    ${printable(line)}`);
  return [about, ...dialogue].join('\n');
}
