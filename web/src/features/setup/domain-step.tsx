/** The domain that sends: added, published by the provider's API or by hand, and checked until DNS has its records. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import type { Domain, DomainPublication } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { DNS_PANELS, zonesOf } from '../../lib/dns-panels.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { DomainRecords } from '../../ui/domain-records.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { InlineSelect } from '../../ui/select.tsx';
import { Time } from '../../ui/time.tsx';
import { leadingDomain } from './steps.ts';
import { useAction, useApiIn, useReloadIn } from './use-action.tsx';

export function DomainStep({ domains }: { domains: readonly Domain[] }): ReactNode {
  const domain = leadingDomain(domains);
  return domain === undefined ? <AddDomain /> : <Records key={domain.id} domain={domain} />;
}

function AddDomain(): ReactNode {
  const api = useApiIn('live');
  const reload = useReloadIn('live');
  const add = async (form: FormData): Promise<void> => {
    await api.call('createDomain', { body: { name: textOf(form, 'name') } });
    await reload();
  };
  return (
    <Allowed to="createDomain">
      <div className="-mx-5 max-w-lg">
        <ActionForm action="Add the domain" send={add}>
          <Field
            label="Domain of your sender addresses"
            name="name"
            placeholder="acme.com"
            hint="You then get the records to publish in its DNS."
            autoComplete="off"
            required
          />
        </ActionForm>
      </div>
    </Allowed>
  );
}

/**
 * Milliseconds between two checks of a domain by an open page. Each is a request that looks up DNS and counts towards
 * a limit, so a page that stays open asks less often, and stops after a while.
 */
const CHECKS_MS = [10_000, 20_000, 20_000, 30_000, 30_000, 60_000, 60_000, 120_000, 300_000];

function useChecks(domain: Domain): { isChecking: boolean; check: () => void; failure: ReactNode } {
  const api = useApiIn('live');
  const reload = useReloadIn('live');
  const may = useMay();
  const [count, setCount] = useState(0);
  const { run, isRunning, failure } = useAction(async () => {
    await api.call('verifyDomain', { path: { id: domain.id } });
    await reload();
  });
  const waitMs = CHECKS_MS[count];
  const isOpen = domain.status !== 'verified' && may('verifyDomain') && waitMs !== undefined;
  useEffect(() => {
    if (!isOpen) return;
    const timer = setTimeout(() => {
      setCount((before) => before + 1);
      if (document.visibilityState === 'visible') run();
    }, waitMs);
    return () => clearTimeout(timer);
    // `run` is new with every rendering, and does the same.
  }, [isOpen, waitMs, domain.id]);
  return { isChecking: isRunning, check: run, failure };
}

function Records({ domain }: { domain: Domain }): ReactNode {
  const { scope } = useApi();
  const { isChecking, check, failure } = useChecks(domain);
  const [panel, setPanel] = usePanel();
  const zones = zonesOf(domain.name);
  const [zone, setZone] = useState(zones[0] ?? domain.name);
  const chosen = DNS_PANELS[panel];
  return (
    <>
      <div className="flex flex-wrap items-center gap-2">
        <p className="min-w-60 grow text-sm text-muted">
          Add these where the DNS of {zone} is managed.{' '}
          {domain.checked_at && (
            <>
              Checked <Time at={domain.checked_at} />.
            </>
          )}
        </p>
        <InlineSelect
          label="DNS provider"
          value={panel}
          onChange={setPanel}
          options={Object.entries(DNS_PANELS).map(([id, { name }]) => [id, name])}
        />
        {zones.length > 1 && (
          <InlineSelect
            label="Zone"
            value={zone}
            onChange={setZone}
            options={zones.map((one) => [one, one])}
          />
        )}
        <PublishButton domain={domain} />
        <Allowed to="verifyDomain">
          <Button look="primary" disabled={isChecking} onClick={check}>
            {isChecking ? 'Checking' : 'Check now'}
          </Button>
        </Allowed>
      </div>
      {failure}
      {chosen?.hint && <p className="max-w-prose text-sm">{chosen.hint}</p>}
      <div className="-mx-(--page-x) border-y border-line">
        <DomainRecords domain={domain} panel={panel} zone={zone} isChecking={isChecking} />
      </div>
      <Link
        to="/$project/$environment/domains/$id"
        params={{ ...scope, environment: 'live', id: domain.id }}
        className="link text-sm"
      >
        Everything about {domain.name}
      </Link>
    </>
  );
}

const PANEL = 'letterhaus-dns-panel';

/** Remembers where this member manages DNS. */
function usePanel(): [string, (panel: string) => void] {
  const [panel, setPanel] = useState(() => localStorage.getItem(PANEL) ?? 'other');
  const choose = (chosen: string): void => {
    localStorage.setItem(PANEL, chosen);
    setPanel(chosen);
  };
  return [panel in DNS_PANELS ? panel : 'other', choose];
}

/** For owners, when the service has a token of the DNS provider. */
function PublishButton({ domain }: { domain: Domain }): ReactNode {
  const connection = useQuery(useApi().query('getConnection')).data;
  const [isOpen, setOpen] = useState(false);
  const provider = connection?.dns_provider;
  if (!provider || domain.status === 'verified') return null;
  const name = DNS_PANELS[provider]?.name ?? provider;
  return (
    <Allowed to="publishDomainRecords">
      <Button onClick={() => setOpen(true)}>Publish at {name}</Button>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title={`Publish at ${name}`}>
        <Publish domain={domain} onDone={() => setOpen(false)} />
      </Dialog>
    </Allowed>
  );
}

const ACTIONS = { add: 'will be added', present: 'is there', blocked: 'is blocked' } as const;

function Publish({ domain, onDone }: { domain: Domain; onDone: () => void }): ReactNode {
  const api = useApiIn('live');
  const reload = useReloadIn('live');
  const [plan, setPlan] = useState<DomainPublication | null>(null);
  const path = { id: domain.id };
  const look = async (): Promise<void> => {
    setPlan(await api.call('publishDomainRecords', { path, body: { dry_run: true } }));
  };
  const publish = async (): Promise<void> => {
    const { records } = await api.call('publishDomainRecords', { path, body: { dry_run: false } });
    await api.call('verifyDomain', { path });
    await reload();
    if (records.every(({ action }) => action !== 'blocked')) onDone();
    else await look();
  };
  if (plan === null) {
    return (
      <ActionForm action="Show what is missing" send={look}>
        <p>
          Looks at the zone of {domain.name} and shows what is missing there. Nothing is changed
          yet.
        </p>
      </ActionForm>
    );
  }
  const additions = plan.records.filter(({ action }) => action === 'add').length;
  return (
    <ActionForm
      action={additions === 0 ? 'Check again' : `Add ${additions} records`}
      send={publish}
    >
      <p>
        The zone {plan.zone} at {plan.provider}. Existing records are neither changed nor removed.
      </p>
      <ul className="space-y-2 text-sm">
        {plan.records.map(({ purpose, type, name, value, action, problem }) => (
          <li key={`${type} ${name} ${value}`}>
            <span className="font-medium">
              {purpose} {ACTIONS[action]}
            </span>
            <span className="block font-mono text-xs break-all text-muted">
              {name} {type}
            </span>
            {problem !== null && <p className="break-words text-bad">{problem}</p>}
          </li>
        ))}
      </ul>
    </ActionForm>
  );
}
