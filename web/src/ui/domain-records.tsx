/**
 * The DNS records of a domain as rows: what has to be there beside what DNS has, in the form that the panel of the
 * chosen provider takes. A wrong record is a difference with the value to paste.
 */
import { Check, CircleDashed, Clock, type LucideIcon, X } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Domain, DomainRecord } from '../../../sdk/src/api.ts';
import { mergeSpf } from '../../../src/core/dns/spf-merge.ts';
import { DNS_PANELS, fieldsFor, type PanelFields } from '../lib/dns-panels.ts';
import { asSentence } from '../lib/words.ts';
import { Chip } from './chip.tsx';
import { CopyButton } from './copy.tsx';
import { AtDots } from './domain-name.tsx';
import type { Tone } from './tone.ts';

type State = { tone: Tone; icon: LucideIcon; word: string };

const STATES: Readonly<Record<DomainRecord['status'], State>> = {
  not_started: { tone: 'quiet', icon: CircleDashed, word: 'Not checked' },
  verified: { tone: 'good', icon: Check, word: 'Found' },
  missing: { tone: 'wait', icon: CircleDashed, word: 'Missing' },
  mismatch: { tone: 'bad', icon: X, word: 'Different' },
  dns_error: { tone: 'wait', icon: Clock, word: 'No answer' },
};

/** A record that is good to have, and that no check requires. */
const ADVISED: State = { tone: 'quiet', icon: CircleDashed, word: 'Advised' };

type Row = {
  key: string;
  purpose: string;
  note: string;
  type: string;
  state: State;
  fields: PanelFields;
  /** Values that DNS has instead. */
  found: readonly string[];
  problem: string | null;
};

export function DomainRecords(props: {
  domain: Domain;
  panel: string;
  zone: string;
  isChecking: boolean;
}): ReactNode {
  const { domain, panel, zone, isChecking } = props;
  const rows = rowsOf(domain, panel, zone);
  const { nameField = 'Name' } = DNS_PANELS[panel] ?? {};
  return (
    <ul aria-label={`Records of ${domain.name}`} className="divide-y divide-line">
      {rows.map((row) => (
        <li
          key={row.key}
          className="grid gap-x-4 gap-y-1 px-(--page-x) py-3 text-sm md:grid-cols-[7rem_minmax(0,1fr)_6rem]"
        >
          <p className="max-md:flex max-md:gap-2">
            <span className="font-medium">{row.purpose}</span>
            <span className="text-xs text-muted md:block">
              {row.type}
              {row.note}
            </span>
          </p>
          <div className="min-w-0 space-y-1 max-md:order-last">
            <Part label={nameField} text={row.fields.name} of={row.purpose} />
            <Value row={row} />
            {row.fields.priority !== null && (
              <Part label="Priority" text={String(row.fields.priority)} of={row.purpose} />
            )}
            {row.problem !== null && (
              <p className="pt-1 break-words text-bad">{asSentence(row.problem)}</p>
            )}
          </div>
          <p className="md:text-right">
            <StateChip state={isChecking ? null : row.state} />
          </p>
        </li>
      ))}
    </ul>
  );
}

function StateChip({ state }: { state: State | null }): ReactNode {
  if (state === null) {
    return <Chip tone="open">Checking</Chip>;
  }
  return (
    <Chip tone={state.tone} icon={state.icon}>
      {state.word}
    </Chip>
  );
}

function rowsOf({ name, records, advice }: Domain, panel: string, zone: string): Row[] {
  const rows = records
    .filter(({ key }) => key !== 'previous')
    .map((record) => {
      const isDifferent = record.status === 'mismatch';
      const found = isDifferent ? record.found : [];
      const spf = record.record === 'SPF' && found.length === 1 ? found[0]! : null;
      const value = spf === null ? record.value : mergeSpf(spf, record.value);
      return {
        key: `${record.type} ${record.name}`,
        purpose: record.record === 'MX' ? 'Return path' : record.record,
        note: `${record.required ? '' : ', optional'}${record.key === undefined ? '' : `, ${record.key} key`}`,
        type: record.type,
        state: STATES[record.status],
        fields: fieldsFor(panel, zone, { ...record, value }),
        found,
        problem: record.status === 'verified' ? null : record.problem,
      };
    });
  return [...rows, ...dmarcRow({ name, advice }, panel, zone)];
}

/** Large receivers require a DMARC record. `p=none` changes nothing for the mail of a domain. */
function dmarcRow(
  { name, advice }: Pick<Domain, 'name' | 'advice'>,
  panel: string,
  zone: string,
): Row[] {
  const isAbsent = advice.some(
    ({ about, message }) => about === 'dmarc' && message.startsWith('there is no DMARC record'),
  );
  if (!isAbsent) return [];
  const record = {
    type: 'TXT',
    name: `_dmarc.${name}`,
    value: `v=DMARC1; p=none; rua=mailto:dmarc@${name}`,
  };
  const fields = fieldsFor(panel, zone, record);
  const text = { purpose: 'DMARC', note: ', advised', type: 'TXT', found: [], problem: null };
  return [{ key: 'dmarc', state: ADVISED, fields, ...text }];
}

function Part({ label, text, of }: { label: string; text: string; of: string }): ReactNode {
  return (
    <p className="flex items-start gap-2">
      <span className="w-20 shrink-0 pt-1 text-xs text-muted">{label}</span>
      <code className="min-w-0 pt-0.5 font-mono text-xs leading-relaxed [overflow-wrap:anywhere]">
        <AtDots text={text} />
      </code>
      <span className="-my-1 shrink-0">
        <CopyButton text={text} what={`${label.toLowerCase()} of ${of}`} />
      </span>
    </p>
  );
}

function Value({ row }: { row: Row }): ReactNode {
  const { value } = row.fields;
  if (row.found.length === 0) return <Part label="Value" text={value} of={row.purpose} />;
  return (
    <div className="flex items-start gap-2">
      <span className="w-20 shrink-0 pt-1 text-xs text-muted">Value</span>
      <div className="min-w-0 grow overflow-hidden rounded-md border border-line font-mono text-xs leading-relaxed">
        {row.found.map((text) => (
          <p key={text} className="bg-bad-tint px-2 py-1 break-all text-bad">
            <span className="sr-only">Found: </span>
            <span aria-hidden>− </span>
            {text}
          </p>
        ))}
        <p className="flex items-start gap-2 bg-good-tint px-2 py-1 text-good">
          <span className="min-w-0 grow break-all">
            <span className="sr-only">Wanted: </span>
            <span aria-hidden>+ </span>
            {value}
          </span>
        </p>
      </div>
      <span className="-my-1 shrink-0">
        <CopyButton text={value} what={`value of ${row.purpose}`} />
      </span>
    </div>
  );
}
