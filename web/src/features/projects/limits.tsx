/** The limits of the current project and environment, their use, and the forms that change them. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Limits, ProjectSettings } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { megabytes } from '../../lib/numbers.ts';
import { inWords } from '../../lib/time.ts';
import { useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { useLastChange } from '../../ui/last-change.tsx';
import { Mark } from '../../ui/mark.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Dash, Table } from '../../ui/table.tsx';
import { type Category, LimitForm, type Setting } from './limit-form.tsx';
import { isNearlyFull } from './storage-words.ts';

/** The settings of the project; undefined for members who do not run the installation. */
export function useProjectSettings(): ProjectSettings | undefined {
  const api = useApi();
  const may = useMay()('getProjectSettings');
  const path = { id: api.scope.project };
  return useQuery({ ...api.query('getProjectSettings', { path }), enabled: may, retry: false })
    .data;
}

export function LimitsCard(): ReactNode {
  const api = useApi();
  const limits = useQuery(api.query('getLimits'));
  const settings = useProjectSettings();
  const last = useLastChange(api.scope.project);
  const [changed, setChanged] = useState<Row | null>(null);
  return (
    <>
      <Card
        title={`Limits in ${api.scope.environment}`}
        about={
          settings === undefined
            ? 'Owners of the installation set them.'
            : 'Each project can have limits of its own. The others follow a variable.'
        }
        wide={
          <>
            {limits.isPending && <RowsSkeleton rows={4} />}
            {limits.isError && <Problem error={limits.error} retry={() => void limits.refetch()} />}
            {limits.isSuccess && (
              <LimitTable
                rows={rowsOf(limits.data, settings, api.scope.environment)}
                onChange={settings && setChanged}
              />
            )}
          </>
        }
        footer={settings && last}
      />
      <Dialog
        isOpen={changed !== null}
        onClose={() => setChanged(null)}
        title={`Change the limit: ${changed?.what ?? ''}`}
      >
        {changed?.setting && settings && (
          <LimitForm
            setting={changed.setting}
            settings={settings}
            onDone={() => setChanged(null)}
          />
        )}
      </Dialog>
    </>
  );
}

function LimitTable(props: {
  rows: readonly Row[];
  onChange: ((row: Row) => void) | undefined;
}): ReactNode {
  const { onChange } = props;
  return (
    <Table
      label="Limits"
      rows={props.rows}
      keyOf={({ what }) => what}
      groupOf={({ group }) => group}
      columns={[
        {
          title: 'Resource',
          cell: ({ what, help }) => (
            <>
              <span className="block first-letter:uppercase">{what}</span>
              {help && <span className="block text-xs text-muted">{help}</span>}
            </>
          ),
        },
        { title: 'Limit', isPlain: true, cell: ({ limit }) => limit },
        { title: 'Usage', isPlain: true, cell: ({ now }) => now ?? <Dash /> },
        {
          title: 'Set by',
          isWide: true,
          cell: ({ variable, isOwn }) =>
            isOwn ? 'This project' : <code className="font-mono text-xs">{variable}</code>,
        },
        {
          title: '',
          isNumber: true,
          isHidden: onChange === undefined,
          cell: (row) =>
            row.setting && (
              <Button
                size="small"
                aria-label={`Change ${row.what}`}
                onClick={() => onChange?.(row)}
              >
                Change
              </Button>
            ),
        },
      ]}
    />
  );
}

type Row = {
  group: 'Rates' | 'Quotas' | 'Retention';
  what: string;
  /** One sentence, for what its name does not say. */
  help?: string | undefined;
  limit: string;
  /** The present use; null for what has none. */
  now: ReactNode;
  variable: string;
  /** The project has a value of its own. */
  isOwn: boolean;
  /** The setting that the form changes; null for limits that follow another one. */
  setting: Setting | null;
};

function rowsOf(
  { limits, domains, storage, retention }: Limits,
  settings: ProjectSettings | undefined,
  environment: 'live' | 'test',
): Row[] {
  const rates = limits.map((limit): Row => {
    const value = { max: limit.limit, window_s: limit.window_s };
    const category = CATEGORIES.find((name) => name === limit.category);
    return {
      group: 'Rates',
      what: limit.counts,
      help: HELP[limit.category],
      limit: `${limit.limit.toLocaleString()} ${perWindow(limit.window_s)}`,
      now: <Left limit={limit} />,
      variable: limit.variable,
      isOwn: limit.is_own,
      setting: category ? { kind: 'rate', category, environment, value } : null,
    };
  });
  const hasRecipients = limits.some(({ category }) => category === 'recipients');
  return [
    ...rates,
    ...(hasRecipients ? [] : [recipientsRow(environment)]),
    {
      group: 'Quotas',
      what: 'domains',
      limit: domains.max.toLocaleString(),
      now: `${domains.used.toLocaleString()} used`,
      variable: 'LETTERHAUS_DOMAINS_MAX',
      isOwn: false,
      setting: { kind: 'domains', value: domains.max },
    },
    {
      group: 'Quotas',
      what: 'storage',
      limit: storage.max_bytes === null ? 'No limit' : megabytes(storage.max_bytes),
      now: <Stored storage={storage} />,
      variable: 'LETTERHAUS_STORAGE_MAX_MB',
      isOwn: false,
      setting: { kind: 'storage', bytes: storage.max_bytes },
    },
    {
      group: 'Retention',
      what: 'content of emails',
      limit: keptFor(retention.content_hours),
      now: null,
      variable: 'LETTERHAUS_RETENTION_CONTENT',
      isOwn: settings?.content != null,
      setting: { kind: 'retention', field: 'content', value: settings?.content ?? null },
    },
    {
      group: 'Retention',
      what: 'emails with their timeline',
      limit: keptFor(retention.metadata_hours),
      now: null,
      variable: 'LETTERHAUS_RETENTION_METADATA',
      isOwn: settings?.metadata != null,
      setting: { kind: 'retention', field: 'metadata', value: settings?.metadata ?? null },
    },
  ];
}

const UNITS: Readonly<Record<number, string>> = {
  60: 'a minute',
  3_600: 'an hour',
  86_400: 'a day',
};

/** "a minute", or "in 5 min" */
function perWindow(windowS: number): string {
  return UNITS[windowS] ?? `in ${inWords(windowS)}`;
}

const HELP: Readonly<Record<string, string>> = {
  dry_runs: 'Requests with dry_run=true. Their limit follows the one above.',
};

const CATEGORIES: readonly Category[] = [
  'sending',
  'recipients',
  'verification',
  'domains',
  'webhooks',
];

/** Recipients are limited only when somebody sets it. */
function recipientsRow(environment: 'live' | 'test'): Row {
  const value = { max: 1_000, window_s: 60 };
  return {
    group: 'Rates',
    what: 'recipients of accepted emails',
    limit: 'No limit',
    now: null,
    variable: 'LETTERHAUS_LIMIT_RECIPIENTS',
    isOwn: false,
    setting: { kind: 'rate', category: 'recipients', environment, value },
  };
}

type Limit = Limits['limits'][number];

function Left({ limit: { limit, remaining, reset_s: resetS } }: { limit: Limit }): ReactNode {
  if (remaining === limit) return <span className="text-muted">Unused</span>;
  if (remaining > 0) return `${remaining.toLocaleString()} left, resets in ${inWords(resetS)}`;
  return <Mark look="bad">used up, resets in {inWords(resetS)}</Mark>;
}

function Stored({ storage }: Pick<Limits, 'storage'>): ReactNode {
  const text = `${megabytes(storage.used_bytes)} used`;
  return isNearlyFull(storage) ? <Mark look="bad">{text}</Mark> : text;
}

const DAY_H = 24;

function keptFor(hours: number | null): string {
  if (hours === null) return 'Kept indefinitely';
  return hours % DAY_H === 0 ? `Kept for ${hours / DAY_H} days` : `Kept for ${hours} hours`;
}
