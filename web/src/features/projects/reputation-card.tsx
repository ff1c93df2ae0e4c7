/** The thresholds above which a sending domain raises an alert, and whether its new mail is then put on hold. */
import { type ReactNode, useState } from 'react';
import type { ProjectSettings } from '../../../../sdk/src/api.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { useChangeSettings } from './limit-form.tsx';
import { useProjectSettings } from './limits.tsx';

/** For owners of the installation. */
export function ReputationCard(): ReactNode {
  const settings = useProjectSettings();
  const [isOpen, setOpen] = useState(false);
  if (settings === undefined) return null;
  const { on, bounces, complaints, min, pause } = settings.reputation_alert;
  return (
    <Card
      title="Reputation alert"
      about={
        <HandbookLink page="reputation" isInText>
          How reputation is measured
        </HandbookLink>
      }
      actions={
        <Button size="small" onClick={() => setOpen(true)}>
          Change the alert
        </Button>
      }
    >
      <p className="flex flex-wrap items-center gap-2 text-sm">
        <Chip tone={on ? 'good' : 'quiet'}>{on ? 'On' : 'Off'}</Chip>
        {on && (
          <span>
            Above {bounces} bounces or {complaints} complaints, of at least {min.toLocaleString()}{' '}
            recipients in 24 hours. New mail {pause ? 'is then held' : 'is still sent'}.
          </span>
        )}
      </p>
      {settings.warnings.map(({ domain, environment, message }) => (
        <p key={`${domain} ${environment} ${message}`} className="text-sm break-words text-bad">
          {domain} ({environment}): {message}
        </p>
      ))}
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title="Change the reputation alert">
        <AlertForm alert={settings.reputation_alert} onDone={() => setOpen(false)} />
      </Dialog>
    </Card>
  );
}

type AlertRule = ProjectSettings['reputation_alert'];

function AlertForm({ alert, onDone }: { alert: AlertRule; onDone: () => void }): ReactNode {
  const change = useChangeSettings();
  const send = async (form: FormData): Promise<void> => {
    const text = (name: string): string | null => textOf(form, name).trim() || null;
    const min = text('min');
    await change({
      reputation_alert: {
        on: form.get('on') !== null,
        pause: form.get('pause') !== null,
        bounces: text('bounces'),
        complaints: text('complaints'),
        min: min === null ? null : Number(min),
      },
    });
    onDone();
  };
  return (
    <ActionForm action="Save" send={send}>
      <Check name="on" isOn={alert.on} label="Alert when a domain is above a threshold" />
      <Field label="Bounces" name="bounces" defaultValue={alert.bounces} placeholder="5%" />
      <Field
        label="Complaints"
        name="complaints"
        defaultValue={alert.complaints}
        placeholder="0.3%"
      />
      <Field
        label="Minimum number of recipients"
        name="min"
        type="number"
        min={1}
        max={1_000_000}
        defaultValue={alert.min}
      />
      <Check name="pause" isOn={alert.pause} label="Hold new mail of that domain" />
      <p className="text-sm text-muted">An empty field uses the default of the installation.</p>
    </ActionForm>
  );
}

function Check({ name, isOn, label }: { name: string; isOn: boolean; label: string }): ReactNode {
  return (
    <label className="flex items-center gap-2 text-sm">
      <input type="checkbox" name={name} defaultChecked={isOn} />
      {label}
    </label>
  );
}
