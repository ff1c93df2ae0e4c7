/** One domain: each record to publish, the record found in DNS, and the advice for it. */
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { Download, KeyRound, RefreshCw, Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Domain } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { saveAs } from '../../api/download.ts';
import { useApi } from '../../api/scope.ts';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { DomainRecords, isAbsentDmarc } from '../../ui/domain-records.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { FieldRefusal } from '../../ui/form-problems.ts';
import type { MoreItem } from '../../ui/more-menu.tsx';
import { Crumb, PageBody, PageHead } from '../../ui/page.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import type { IfMatch } from '../../ui/shared-change.tsx';
import { PageState, sentenceOf } from '../../ui/states.tsx';
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
      <PageState query={domain} />
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
  return (
    <>
      <PageHead
        title={inOwnScript(domain.name)}
        crumb={<ToDomains />}
        about={<About domain={domain} />}
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
        <Advice advice={domain.advice.filter((one) => !isAbsentDmarc(one))} />
        <Dmarc domain={domain} />
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

/** The verdict below says that a domain was never checked. */
function About({ domain }: { domain: Domain }): ReactNode {
  return (
    <span className="flex flex-wrap items-center gap-x-3">
      {domain.status !== 'not_started' && <DomainMark {...domain} />}
      {inOwnScript(domain.name) !== domain.name && (
        <span className="font-mono text-xs">{domain.name}</span>
      )}
      {domain.checked_at && (
        <span>
          Checked <Time at={domain.checked_at} />
        </span>
      )}
    </span>
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
      wide={<DomainRecords domain={domain} isChecking={isChecking} hasPrevious />}
    />
  );
}

type AdviceItem = Domain['advice'][number];

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
function Dmarc({ domain }: { domain: Domain }): ReactNode {
  const api = useApi();
  const { id, environment, verified_at: verifiedAt, advice } = domain;
  // Without a record there are no reports; the row of the record then says it.
  const hasReports = environment === 'live' && verifiedAt !== null && !advice.some(isAbsentDmarc);
  const query = api.query('getDomainDmarc', { path: { id } });
  const dmarc = useQuery({ ...query, enabled: hasReports });
  if (!hasReports || !dmarc.isSuccess) return null;
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
