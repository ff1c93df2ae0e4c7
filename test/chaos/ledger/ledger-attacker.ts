/**
 * The part of the ledger about the attacker. It checks that nodes responded to each attack, refused everything that its
 * keys do not allow, never failed, and showed no data of another project. The rules for mail (ledger.ts) cover the
 * attacker's mail as well.
 */
import type { AttackResponses, Evidence, Finding, FindingKind } from './ledger-types.ts';

/** Statuses for an exceeded limit (429), and for a busy service or an unavailable database (503). */
const ALWAYS_ALLOWED = [429, 503];

const finding = (kind: FindingKind, what: string): Finding => ({ kind, what });

export function compareAttacks({ attacks, shown }: Pick<Evidence, 'attacks' | 'shown'>): Finding[] {
  return [
    ...attacks.flatMap(responsesAreAllowed),
    ...shown.ids.filter((id) => !shown.own.has(id)).map((id) => finding('shown_to_attacker', id)),
  ];
}

function responsesAreAllowed({ attack, allowed, answers }: AttackResponses): Finding[] {
  const wanted = [...allowed, ...ALWAYS_ALLOWED];
  const wrong = answers.filter(({ status }) => !wanted.includes(status));
  const isExercised = answers.some(({ status }) => allowed.includes(status));
  return [
    ...(isExercised ? [] : [finding('fault_not_exercised', `attack: ${attack}`)]),
    ...wrong.map(({ status, count, example }) =>
      finding(
        status < 400 ? 'attacker_not_refused' : 'unexpected_response',
        `attack: ${attack}: ${count} times ${status}, ${example}`,
      ),
    ),
  ];
}
