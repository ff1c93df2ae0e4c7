/** The verdict on a domain that is not verified: whether it sends and until when, and the number of wrong records. */
import { Globe } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Domain } from '../../../../sdk/src/api.ts';
import { dayTime } from '../../lib/time.ts';
import type { Tone } from '../../ui/tone.ts';
import { Verdict } from '../../ui/verdict.tsx';

type Unverified = Exclude<Domain['status'], 'verified'>;

const TONES: Readonly<Record<Unverified, Tone>> = {
  not_started: 'open',
  pending: 'wait',
  degraded: 'wait',
  failed: 'bad',
};

const HOUR_MS = 3_600_000;
/** A domain fails when a required record was missing for so long. */
const FAILS_AFTER_MS = 72 * HOUR_MS;

export function DomainVerdict({ domain }: { domain: Domain }): ReactNode {
  const { status } = domain;
  if (status === 'verified') return null;
  const [title, reason] = wordsOf(domain, status);
  return (
    <Verdict tone={TONES[status]} title={title} {...(status === 'not_started' && { icon: Globe })}>
      <p>{reason}</p>
    </Verdict>
  );
}

function wordsOf(domain: Domain, status: Unverified): readonly [title: string, reason: string] {
  const { failing_since: since } = domain;
  const records = unfoundIn(domain);
  switch (status) {
    case 'not_started':
      return [
        'Publish these records, then check them',
        'You can send from this domain once its required records are found.',
      ];
    case 'pending':
      return [
        `Not verified: ${records}`,
        'You can send once they are found. A new record can take an hour to be seen. The records are checked daily.',
      ];
    case 'degraded':
      return [
        `Still sending: ${records}`,
        since === null
          ? 'Sending stops when a record is missing for 72 hours. The records are checked every hour.'
          : `Sending stops ${dayTime(endOf(since))} unless they are found by then. The records are checked every hour.`,
      ];
    case 'failed':
      return [
        `Sending has stopped: ${records}`,
        'Accepted mail waits until the domain is verified again, or expires. New mail from it is refused.',
      ];
  }
}

function endOf(since: string): string {
  return new Date(Date.parse(since) + FAILS_AFTER_MS).toISOString();
}

/** "2 of 3 required records are wrong" */
function unfoundIn({ records }: Domain): string {
  const required = records.filter((record) => record.required);
  const wrong = required.filter(({ status }) => status !== 'verified').length;
  if (wrong === 0) return 'a check is due';
  const [noun, verb] = wrong === 1 ? ['record', 'is'] : ['records', 'are'];
  return required.length === wrong && wrong > 1
    ? `all ${wrong} required ${noun} ${verb} missing or wrong`
    : `${wrong} of ${required.length} required records ${verb} missing or wrong`;
}
