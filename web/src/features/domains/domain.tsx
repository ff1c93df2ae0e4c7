/** One domain: each record to publish, the record found in DNS, and the advice for it. */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Domain, DomainRecord } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { saveAs } from '../../api/download.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { Mark } from '../../ui/mark.tsx';
import { PageHead } from '../../ui/page.tsx';
import { Problem, RowsSkeleton, sentenceOf } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { DomainMark } from './domains.tsx';
import { zoneFileOf } from './zone-file.ts';

export function DomainScreen(): ReactNode {
  const api = useApi();
  const { id } = useParams({ from: '/$project/$environment/domains/$id' });
  const domain = useQuery(api.query('getDomain', { path: { id } }));
  return (
    <>
      <Link
        to="/$project/$environment/domains"
        params={api.scope}
        className="mx-4 mt-3 inline-flex items-center gap-1 text-sm text-muted hover:text-text"
      >
        <ArrowLeft size={14} aria-hidden /> Domains
      </Link>
      {domain.isPending && <RowsSkeleton />}
      {domain.isError && <Problem error={domain.error} retry={() => void domain.refetch()} />}
      {domain.isSuccess && <Loaded domain={domain.data} />}
    </>
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
  return (
    <>
      <PageHead
        title={domain.name}
        about={
          <span className="flex flex-wrap gap-x-3">
            <DomainMark {...domain} />
            {domain.checked_at && (
              <span>
                checked <Time at={domain.checked_at} />
              </span>
            )}
          </span>
        }
      >
        <Allowed to="deleteDomain">
          <Button look="danger" onClick={() => setRemoving(true)}>
            Remove
          </Button>
        </Allowed>
        <Rotation domain={domain} isDisabled={check.isRunning} run={run} />
        <Allowed to="verifyDomain">
          <Button
            look="primary"
            disabled={check.isRunning}
            onClick={() => void run('verifyDomain')}
          >
            {check.isRunning ? 'Checking' : 'Check now'}
          </Button>
        </Allowed>
      </PageHead>
      {check.failure !== null && (
        <p role="alert" className="px-4 pt-4 text-sm text-bad">
          {check.failure}
        </p>
      )}
      <div className="space-y-4 p-4">
        <div className="flex flex-wrap items-center gap-3">
          <p className="max-w-prose grow text-muted">
            Publish these records at the DNS provider of {domain.name}.
          </p>
          <Button
            onClick={() => saveAs(new Blob([zoneFileOf(domain)]), `${domain.name}.zone`)}
            title="All records in one file, to import at your DNS provider"
          >
            Download zone file
          </Button>
        </div>
        {domain.records.map((record) => (
          <Record
            key={`${record.type} ${record.name}`}
            record={record}
            isChecking={check.isRunning}
          />
        ))}
        {domain.advice.length > 0 && <Advice advice={domain.advice} />}
      </div>
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

function Rotation(props: {
  domain: Domain;
  isDisabled: boolean;
  run: (action: Action) => Promise<void>;
}): ReactNode {
  const { verified_at: verifiedAt, dkim } = props.domain;
  if (verifiedAt === null) return null;
  const isRotating = dkim.next !== null;
  const action = isRotating ? 'cancelDomainDkimRotation' : 'rotateDomainDkim';
  return (
    <Allowed to={action}>
      <Button disabled={props.isDisabled} onClick={() => void props.run(action)}>
        {isRotating ? 'Cancel rotation' : 'Rotate DKIM keys'}
      </Button>
    </Allowed>
  );
}

const LOOKS = {
  not_started: ['none', 'not checked yet'],
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
    <section
      aria-label={`${record.record} record ${record.name}`}
      className="rounded-lg border border-line"
    >
      <h2 className="flex flex-wrap items-center gap-x-3 border-b border-line px-3 py-2 text-sm">
        <span className="font-medium">{record.record}</span>
        <span className="text-muted">
          {record.type}
          {record.required || record.key ? '' : ', optional'}
          {record.key && `, ${record.key} key`}
        </span>
        <span className="ml-auto">
          <Mark look={look}>{word}</Mark>
        </span>
      </h2>
      <dl className="divide-y divide-line">
        <Part name="Name" text={record.name} />
        <Part name="Value" text={value} />
        {record.status !== 'verified' &&
          record.found.map((found) => <Part key={found} name="Found" text={found} />)}
      </dl>
      {record.problem && (
        <p className="border-t border-line px-3 py-2 text-sm text-bad">{record.problem}</p>
      )}
    </section>
  );
}

function Part({ name, text }: { name: string; text: string }): ReactNode {
  return (
    <div className="flex items-start gap-3 px-3 py-1.5">
      <dt className="w-14 shrink-0 pt-1 text-sm text-muted">{name}</dt>
      <dd className="flex min-w-0 grow items-start gap-1">
        <span className="min-w-0 grow pt-1 font-mono text-xs break-all">{text}</span>
        <CopyButton text={text} what={name.toLowerCase()} />
      </dd>
    </div>
  );
}

function Advice({ advice }: Pick<Domain, 'advice'>): ReactNode {
  return (
    <section>
      <h2 className="mb-1 font-medium">Advice</h2>
      <ul className="max-w-prose list-disc space-y-1 pl-5 text-sm">
        {advice.map(({ about, message }) => (
          <li key={about + message}>{message}</li>
        ))}
      </ul>
    </section>
  );
}

function RemoveForm({ domain }: { domain: Domain }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const remove = async (form: FormData): Promise<void> => {
    if (textOf(form, 'name').trim() !== domain.name)
      throw new Error(`Type ${domain.name} to confirm.`);
    await api.call('deleteDomain', { path: { id: domain.id } });
    await navigate({ to: '/$project/$environment/domains', params: api.scope });
    await reload('listDomains');
  };
  return (
    <ActionForm action="Remove domain" look="danger" send={remove}>
      <p>You can no longer send from this domain. Queued emails fail.</p>
      <Field label={`Type ${domain.name} to confirm`} name="name" autoComplete="off" required />
    </ActionForm>
  );
}
