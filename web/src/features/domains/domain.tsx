/** One domain: each record to publish, the record found in DNS, and the advice for it. */
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { Download, KeyRound, RefreshCw, Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Domain, DomainRecord } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { saveAs } from '../../api/download.ts';
import { useApi } from '../../api/scope.ts';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { AtDots } from '../../ui/domain-name.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { FieldRefusal } from '../../ui/form-problems.ts';
import { Mark } from '../../ui/mark.tsx';
import type { MoreItem } from '../../ui/more-menu.tsx';
import { Crumb, PageBody, PageHead } from '../../ui/page.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import type { IfMatch } from '../../ui/shared-change.tsx';
import { Problem, RowsSkeleton, sentenceOf } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { inOwnScript } from '../../lib/domain-name.ts';
import { asSentence } from '../../lib/words.ts';
import { DOMAIN_FIELDS, DomainSettings } from './domain-settings.tsx';
import { DomainVerdict } from './domain-verdict.tsx';
import { DomainMark } from './domains.tsx';
import { zoneFileOf } from './zone-file.ts';

/** Addresses with failed messages that a page names. */
const FAILING_SHOWN_MAX = 10;

export function DomainScreen(): ReactNode {
  const api = useApi();
  const { id } = useParams({ from: '/$project/$environment/domains/$id' });
  const domain = useQuery(api.query('getDomain', { path: { id } }));
  return (
    <>
      {!domain.isSuccess && <PageHead title="Domain" crumb={<ToDomains />} />}
      {domain.isPending && <RowsSkeleton />}
      {domain.isError && <Problem error={domain.error} retry={() => void domain.refetch()} />}
      {domain.isSuccess && <Loaded domain={domain.data} />}
    </>
  );
}

function ToDomains(): ReactNode {
  const { scope } = useApi();
  return (
    <Crumb to="/$project/$environment/domains" params={scope}>
      Domains
    </Crumb>
  );
}

type Action = 'verifyDomain' | 'rotateDomainDkim' | 'cancelDomainDkimRotation';

function useCheck({ id }: Domain) {
  const api = useApi();
  const reload = useReload();
  const [check, setCheck] = useState<{ isRunning: boolean; failure: string | null }>({
    isRunning: false,
    failure: null,
  });
  const run = async (action: Action): Promise<void> => {
    setCheck({ isRunning: true, failure: null });
    try {
      await api.call(action, { path: { id } });
      await reload('listDomains');
      setCheck({ isRunning: false, failure: null });
    } catch (error) {
      setCheck({ isRunning: false, failure: sentenceOf(error) });
    }
  };
  return { check, run };
}

function Loaded({ domain }: { domain: Domain }): ReactNode {
  const { check, run } = useCheck(domain);
  const [isRemoving, setRemoving] = useState(false);
  const rotation = useRotation(domain, run);
  const may = useMay();
  const hasDmarc = domain.environment === 'live' && domain.verified_at !== null;
  return (
    <>
      <PageHead
        title={inOwnScript(domain.name)}
        crumb={<ToDomains />}
        about={
          <span className="flex flex-wrap items-center gap-x-3">
            <DomainMark {...domain} />
            {inOwnScript(domain.name) !== domain.name && (
              <span className="font-mono text-xs">{domain.name}</span>
            )}
            {domain.checked_at && (
              <span>
                Checked <Time at={domain.checked_at} />
              </span>
            )}
          </span>
        }
        primary={
          <Allowed to="verifyDomain">
            <Button
              look={domain.status === 'verified' ? 'plain' : 'primary'}
              disabled={check.isRunning}
              onClick={() => void run('verifyDomain')}
            >
              <RefreshCw size={14} aria-hidden />
              {check.isRunning ? 'Checking' : 'Check now'}
            </Button>
          </Allowed>
        }
        more={[
          rotation && { ...rotation, isDisabled: check.isRunning },
          may('deleteDomain') && {
            label: 'Remove domain…',
            icon: Trash2,
            isDestructive: true,
            onChoose: () => setRemoving(true),
          },
        ]}
      />
      <PageBody>
        {check.failure !== null && (
          <Verdict tone="bad" title="The check failed">
            <p role="alert">{check.failure}</p>
          </Verdict>
        )}
        <DomainVerdict domain={domain} />
        <Records domain={domain} isChecking={check.isRunning} />
        <Advice advice={domain.advice.filter((one) => !(hasDmarc && isAbsentDmarc(one)))} />
        {hasDmarc && <Dmarc id={domain.id} />}
        <DomainSettings domain={domain} />
      </PageBody>
      <Dialog
        isOpen={isRemoving}
        onClose={() => setRemoving(false)}
        title={`Remove ${domain.name}?`}
      >
        <RemoveForm domain={domain} />
      </Dialog>
    </>
  );
}

/** Begins or cancels a rotation of the keys; null where there is nothing to rotate. */
function useRotation(domain: Domain, run: (action: Action) => Promise<void>): MoreItem | null {
  const may = useMay();
  const isRotating = domain.dkim.next !== null;
  const action = isRotating ? 'cancelDomainDkimRotation' : 'rotateDomainDkim';
  if (domain.verified_at === null || !may(action)) return null;
  return {
    label: isRotating ? 'Cancel rotation' : 'Rotate DKIM keys',
    icon: KeyRound,
    onChoose: () => void run(action),
  };
}

function Records({ domain, isChecking }: { domain: Domain; isChecking: boolean }): ReactNode {
  return (
    <Card
      title="DNS records"
      about="Publish them where the DNS of the domain is managed."
      actions={
        <Button
          size="small"
          onClick={() => saveAs(new Blob([zoneFileOf(domain)]), `${domain.name}.zone`)}
          title="All records in one file, to import at your DNS provider"
        >
          <Download size={14} aria-hidden />
          Download zone file
        </Button>
      }
      wide={
        <div className="divide-y divide-line">
          {domain.records.map((record) => (
            <Record key={`${record.type} ${record.name}`} record={record} isChecking={isChecking} />
          ))}
        </div>
      }
    />
  );
}

const LOOKS = {
  not_started: ['none', 'not checked'],
  verified: ['good', 'found'],
  missing: ['bad', 'missing'],
  mismatch: ['bad', 'different'],
  dns_error: ['wait', 'DNS did not answer'],
} as const;

function Record(props: { record: DomainRecord; isChecking: boolean }): ReactNode {
  const { record, isChecking } = props;
  const [look, word] = isChecking ? (['open', 'checking'] as const) : LOOKS[record.status];
  const value = record.priority === undefined ? record.value : `${record.priority} ${record.value}`;
  return (
    <section aria-label={`${record.record} record ${record.name}`} className="px-4 py-3">
      <h3 className="flex flex-wrap items-center gap-x-3 text-sm">
        <span className="font-semibold">{record.record}</span>
        <span className="text-muted">
          {[
            record.type !== record.record && record.type,
            algorithmOf(record),
            !record.required && !record.key && 'optional',
            record.key && `${record.key} key`,
          ]
            .filter(Boolean)
            .join(', ')}
        </span>
        <span className="ml-auto">
          <Mark look={look}>{word}</Mark>
        </span>
      </h3>
      <dl className="mt-1.5 grid grid-cols-[auto_minmax(0,1fr)_auto] items-start gap-x-3 gap-y-0.5">
        <Part name="Name" text={record.name} />
        <Part name="Value" text={value} />
        {record.status !== 'verified' &&
          record.found.map((found) => <Part key={found} name="Found" text={found} isWrong />)}
      </dl>
      {record.problem && (
        <p className="mt-1.5 max-w-prose text-sm break-words text-bad">
          {asSentence(record.problem)}
        </p>
      )}
    </section>
  );
}

/** Tells the two DKIM records apart. */
function algorithmOf({ record, value, key }: DomainRecord): string | null {
  if (record !== 'DKIM' || key) return null;
  return value.includes('k=ed25519') ? 'Ed25519' : 'RSA';
}

function Part(props: { name: string; text: string; isWrong?: boolean }): ReactNode {
  const { name, text, isWrong = false } = props;
  const look = isWrong ? 'rounded bg-bad-tint px-1 text-bad' : '';
  return (
    <div className="col-span-full grid grid-cols-subgrid items-start">
      <dt className="w-12 pt-1 text-xs leading-5 text-muted">{name}</dt>
      <dd className="contents">
        <span className="min-w-0 pt-1 text-xs leading-5">
          <span className={`font-mono [overflow-wrap:anywhere] ${look}`}>
            <AtDots text={text} />
          </span>
        </span>
        <CopyButton text={text} what={name.toLowerCase()} />
      </dd>
    </div>
  );
}

type AdviceItem = Domain['advice'][number];

/** The part about DMARC says it with the record to publish. */
function isAbsentDmarc({ about, message }: AdviceItem): boolean {
  return about === 'dmarc' && message.startsWith('there is no DMARC record');
}

function Advice({ advice }: { advice: readonly AdviceItem[] }): ReactNode {
  if (advice.length === 0) return null;
  return (
    <Card title="Advice">
      <ul className="max-w-prose list-disc space-y-1.5 pl-4 text-sm marker:text-muted">
        {advice.map(({ about, message }) => (
          <li key={about + message} className="break-words">
            {asSentence(message)}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Shows what receivers reported, and the record with the next policy, which is published by hand. */
function Dmarc({ id }: Pick<Domain, 'id'>): ReactNode {
  const api = useApi();
  const dmarc = useQuery(api.query('getDomainDmarc', { path: { id } }));
  if (!dmarc.isSuccess) return null;
  const { message, proposal, reports } = dmarc.data;
  const failing = (reports?.sources ?? []).filter(({ failed }) => failed > 0);
  return (
    <Card title="DMARC">
      <p className="max-w-prose text-sm">{message}</p>
      {proposal !== null && (
        <p className="mt-1 flex items-center gap-2 text-sm">
          <code className="break-all">{proposal}</code>
          <CopyButton text={proposal} what="DMARC record" />
        </p>
      )}
      {failing.length > 0 && (
        <ul className="mt-1 list-disc pl-5 text-sm">
          {failing.slice(0, FAILING_SHOWN_MAX).map(({ ip, failed, passed }) => (
            <li key={ip}>
              {ip}: {failed} failed, {passed} passed
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function RemoveForm({ domain }: { domain: Domain }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const path = { id: domain.id };
  const remove = async (headers: IfMatch, form: FormData): Promise<void> => {
    if (textOf(form, 'name').trim() !== domain.name)
      throw new FieldRefusal('name', `Type ${domain.name} to confirm.`);
    await api.call('deleteDomain', { path, headers });
  };
  return (
    <SharedAction
      action="Remove domain"
      look="danger"
      objects={[domain]}
      of={({ id }) => ({ target_id: id })}
      changes={{ ...DOMAIN_FIELDS, dkim: ['DKIM selector', ({ selector }) => selector] }}
      act={(_, headers, form) => remove(headers, form)}
      read={() => api.call('getDomain', { path })}
      onDone={async () => {
        await navigate({ to: '/$project/$environment/domains', params: api.scope });
        await reload('listDomains');
      }}
    >
      <p>You can no longer send from this domain. Queued emails fail.</p>
      <Field label={`Type ${domain.name} to confirm`} name="name" autoComplete="off" required />
    </SharedAction>
  );
}
