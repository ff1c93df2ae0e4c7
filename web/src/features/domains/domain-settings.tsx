/** The defaults for emails of a domain: TLS and tracking. */
import { type ReactNode, useState } from 'react';
import type { Domain } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Fact, Facts } from '../../ui/facts.tsx';
import { useLastChange } from '../../ui/last-change.tsx';
import { Select } from '../../ui/select.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';

const TLS = [
  ['opportunistic', 'If the mail server offers it'],
  ['enforced', 'Required, with a valid certificate'],
] as const;

const tlsInWords = (tls: Domain['tls']): string => TLS.find(([name]) => name === tls)?.[1] ?? tls;

function tracked({ opens, clicks }: Domain['tracking']): string {
  return [opens && 'opens', clicks && 'clicks'].filter(Boolean).join(' and ') || 'off';
}

/** The settings of a domain, for comparisons. */
export const DOMAIN_FIELDS = {
  tls: ['TLS', tlsInWords],
  tracking: ['Tracking', tracked],
} as const;

export function DomainSettings({ domain }: { domain: Domain }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const last = useLastChange(domain.id);
  return (
    <Card
      title="Settings"
      about="For emails that do not set them themselves."
      actions={
        <Allowed to="updateDomain">
          <Button size="small" onClick={() => setOpen(true)}>
            Change settings
          </Button>
        </Allowed>
      }
      footer={last}
    >
      <Facts>
        <Fact name="TLS">{tlsInWords(domain.tls)}</Fact>
        <Fact name="Tracking">{tracked(domain.tracking)}</Fact>
        <Fact name="DKIM selector" isCode>
          {domain.dkim.selector}
        </Fact>
      </Facts>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title={`Settings of ${domain.name}`}>
        <SettingsForm domain={domain} onDone={() => setOpen(false)} />
      </Dialog>
    </Card>
  );
}

function SettingsForm({ domain, onDone }: { domain: Domain; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const path = { id: domain.id };
  return (
    <SharedForm
      action="Save"
      object={domain}
      of={{ target_id: domain.id }}
      fields={DOMAIN_FIELDS}
      bodyOf={(form) => ({
        tls: form.get('tls') === 'enforced' ? ('enforced' as const) : ('opportunistic' as const),
        tracking: { opens: form.get('opens') !== null, clicks: form.get('clicks') !== null },
      })}
      change={(body, headers) => api.call('updateDomain', { path, body, headers })}
      read={() => api.call('getDomain', { path })}
      onDone={async () => {
        await Promise.all([reload('listDomains'), reload('listAuditEvents')]);
        onDone();
      }}
    >
      {(object) => (
        <>
          <Select
            label="TLS to mail servers"
            name="tls"
            options={TLS}
            chosen={object.tls}
            hint="Required: other recipients are retried, and fail when the email expires."
          />
          <fieldset className="grid gap-2 text-sm">
            <legend className="mb-1 font-medium">Tracking</legend>
            {(['opens', 'clicks'] as const).map((name) => (
              <label key={name} className="flex items-center gap-2">
                <input type="checkbox" name={name} defaultChecked={object.tracking[name]} />
                <span className="first-letter:uppercase">{name}</span>
              </label>
            ))}
          </fieldset>
        </>
      )}
    </SharedForm>
  );
}
