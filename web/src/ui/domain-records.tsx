/**
 * The DNS records of a domain as rows: what has to be there beside what DNS has, in the form that the panel of the
 * chosen provider takes. A wrong record is a difference with the value to paste.
 */
import { Check, Circle, Clock, type LucideIcon, RefreshCw, X } from 'lucide-react';
import { type ReactNode, useState } from 'react';
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
  not_started: { tone: 'quiet', icon: Circle, word: 'Not checked' },
  verified: { tone: 'good', icon: Check, word: 'Found' },
  missing: { tone: 'wait', icon: Circle, word: 'Missing' },
  mismatch: { tone: 'bad', icon: X, word: 'Different' },
  dns_error: { tone: 'wait', icon: Clock, word: 'No answer' },
};

/** A record that is good to have, and that no check requires. */
const ADVISED: State = { tone: 'quiet', icon: Circle, word: 'Advised' };

type Row = {
  key: string;
  /** Names the row to screen readers. */
  label: string;
  purpose: string;
  /** The type of the record, and what tells it from others of its purpose. */
  kind: string;
  isOptional: boolean;
  state: State;
  fields: PanelFields;
  /** Values that DNS has instead. */
  found: readonly string[];
  problem: string | null;
};

/** From 80rem on a table of four columns; below that, lines with a label each. */
const COLUMNS = 'xl:grid-cols-[7.5rem_minmax(0,3fr)_minmax(0,5fr)_7rem]';

/**
 * @param props.panel a key of DNS_PANELS
 * @param props.zone the zone that the panel appends to names; without one they are shown in full
 * @param props.hasPrevious also lists the records of the previous keys, which may be removed from DNS
 */
export function DomainRecords(props: {
  domain: Domain;
  panel?: string;
  zone?: string;
  hasPrevious?: boolean;
  isChecking: boolean;
}): ReactNode {
  const { domain, panel = 'other', zone = '', hasPrevious = false, isChecking } = props;
  const records = domain.records.filter(({ key }) => hasPrevious || key !== 'previous');
  const rows = [
    ...records.map((record) => rowOf(record, panel, zone)),
    ...dmarcRow(domain, panel, zone),
  ];
  const { nameField = 'Name' } = DNS_PANELS[panel] ?? {};
  return (
    <>
      <div
        aria-hidden
        className={`h-8.5 items-center gap-x-5 border-b border-line px-(--page-x) text-xs font-medium text-muted max-xl:hidden xl:grid ${COLUMNS}`}
      >
        <span>Record</span>
        <span>{nameField}</span>
        <span>Value</span>
        <span>State</span>
      </div>
      <ul aria-label={`Records of ${domain.name}`} className="divide-y divide-line">
        {rows.map((row) => (
          <RecordRow key={row.key} {...{ row, nameField, isChecking }} />
        ))}
      </ul>
    </>
  );
}

function RecordRow(props: { row: Row; nameField: string; isChecking: boolean }): ReactNode {
  const { row, nameField, isChecking } = props;
  return (
    <li
      aria-label={row.label}
      className={`grid grid-cols-[minmax(0,1fr)_auto] items-start gap-x-5 gap-y-1.5 px-(--page-x) py-3 text-sm xl:py-2.5 ${COLUMNS}`}
    >
      <p className="flex flex-wrap items-baseline gap-x-2 max-xl:self-baseline xl:block xl:pt-0.5">
        <span className="font-medium">{row.purpose}</span>
        {row.isOptional && (
          <span className="rounded border border-line px-1 text-xs text-muted xl:ml-1.5">
            optional
          </span>
        )}
        <span className="text-xs text-muted xl:block">{row.kind}</span>
      </p>
      <div className="min-w-0 max-xl:order-last max-xl:col-span-2">
        <Part label={nameField} text={row.fields.name} of={row.purpose} />
      </div>
      <div className="min-w-0 space-y-1 max-xl:order-last max-xl:col-span-2">
        {row.found.length === 0 ? (
          <Part label="Value" text={row.fields.value} of={row.purpose} />
        ) : (
          <Difference row={row} />
        )}
        {row.fields.priority !== null && (
          <Part label="Priority" text={String(row.fields.priority)} of={row.purpose} isLabelled />
        )}
        {row.problem !== null && (
          <p className="max-w-prose pt-1 break-words text-bad">{asSentence(row.problem)}</p>
        )}
      </div>
      <p className="max-xl:self-baseline xl:min-h-6 xl:pt-0.5">
        <StateChip state={isChecking ? CHECKING : row.state} />
      </p>
    </li>
  );
}

const CHECKING: State = { tone: 'open', icon: RefreshCw, word: 'Checking' };

function StateChip({ state: { tone, icon, word } }: { state: State }): ReactNode {
  return (
    <Chip tone={tone} icon={icon}>
      {word}
    </Chip>
  );
}

function rowOf(record: DomainRecord, panel: string, zone: string): Row {
  const found = record.status === 'mismatch' ? record.found : [];
  const spf = record.record === 'SPF' && found.length === 1 ? found[0]! : null;
  const value = spf === null ? record.value : mergeSpf(spf, record.value);
  return {
    key: `${record.type} ${record.name}`,
    label: `${record.record} record ${record.name}`,
    purpose: record.record === 'MX' ? 'Return path' : record.record,
    kind: kindOf(record),
    isOptional: !record.required && !record.key,
    state: STATES[record.status],
    fields: fieldsFor(panel, zone, { ...record, value }),
    found,
    problem: record.status === 'verified' ? null : record.problem,
  };
}

/** Tells the two DKIM records apart, and those of a rotation. */
function kindOf({ record, type, value, key }: DomainRecord): string {
  const algorithm = value.includes('k=ed25519') ? 'Ed25519' : 'RSA';
  return [type, record === 'DKIM' && !key && algorithm, key && `${key} key`]
    .filter(Boolean)
    .join(', ');
}

/** The row about DMARC says it with the record to publish. */
export function isAbsentDmarc({ about, message }: Domain['advice'][number]): boolean {
  return about === 'dmarc' && message.startsWith('there is no DMARC record');
}

/** Large receivers require a DMARC record. `p=none` changes nothing for the mail of a domain. */
function dmarcRow(
  { name, advice }: Pick<Domain, 'name' | 'advice'>,
  panel: string,
  zone: string,
): Row[] {
  if (!advice.some(isAbsentDmarc)) return [];
  const record = {
    type: 'TXT',
    name: `_dmarc.${name}`,
    value: `v=DMARC1; p=none; rua=mailto:dmarc@${name}`,
  };
  const fields = fieldsFor(panel, zone, record);
  const text = { label: `DMARC record ${record.name}`, purpose: 'DMARC', kind: 'TXT' };
  const rest = { isOptional: false, state: ADVISED, found: [], problem: null };
  return [{ key: 'dmarc', fields, ...rest, ...text }];
}

/** Longer values, like RSA keys, begin folded: nobody types them. */
const FOLDED_FROM_LENGTH = 160;
const FOLDED_LENGTH = 96;

/** @param props.isLabelled shows the label also where the columns have a head */
function Part(props: { label: string; text: string; of: string; isLabelled?: boolean }): ReactNode {
  const { label, text, of, isLabelled = false } = props;
  const [isOpen, setOpen] = useState(false);
  const isLong = text.length > FOLDED_FROM_LENGTH;
  const folded = isOpen ? text : `${text.slice(0, FOLDED_LENGTH)}…`;
  return (
    <div className="flex items-start">
      <span
        className={`w-16 shrink-0 pt-0.5 text-xs leading-5 text-muted ${isLabelled ? 'xl:mr-2 xl:w-auto' : 'xl:sr-only'}`}
      >
        {label}
      </span>
      <div className="min-w-0 pt-0.5 max-xl:grow">
        <code className="block font-mono text-xs leading-5 [overflow-wrap:anywhere]">
          {isLong ? folded : <AtDots text={text} />}
        </code>
        {isLong && (
          <button
            type="button"
            aria-expanded={isOpen}
            onClick={() => setOpen(!isOpen)}
            className="text-xs leading-5 text-muted underline underline-offset-2 hover:text-text"
          >
            {isOpen ? 'Show less' : 'Show the full value'}
          </button>
        )}
      </div>
      <span className="-my-0.5 ml-1 shrink-0">
        <CopyButton text={text} what={`${label.toLowerCase()} of ${of}`} />
      </span>
    </div>
  );
}

/** The values in DNS as removed lines, and the value to publish as an added one. */
function Difference({ row }: { row: Row }): ReactNode {
  const { value } = row.fields;
  return (
    <div className="flex items-start">
      <span className="w-16 shrink-0 pt-0.5 text-xs leading-5 text-muted xl:sr-only">Value</span>
      <div className="min-w-0 overflow-hidden rounded-md border border-line font-mono text-xs leading-relaxed">
        {row.found.map((text) => (
          <p key={text} className="bg-bad-tint px-2 py-1 break-all text-bad">
            <span className="sr-only">Found: </span>
            <span aria-hidden>− </span>
            {text}
          </p>
        ))}
        <p className="bg-good-tint px-2 py-1 break-all text-good">
          <span className="sr-only">Wanted: </span>
          <span aria-hidden>+ </span>
          {value}
        </p>
      </div>
      <span className="ml-1 shrink-0 self-end">
        <CopyButton text={value} what={`value of ${row.purpose}`} />
      </span>
    </div>
  );
}
