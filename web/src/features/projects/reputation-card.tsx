/** The thresholds above which a sending domain raises an alert, and whether its new mail is then put on hold. */
import { type ReactNode, useState } from 'react';
import type { ProjectSettings } from '../../../../sdk/src/api.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { useApi } from '../../api/scope.ts';
import { SharedForm } from '../../ui/shared-form.tsx';
import { useSettingsChanged } from './limit-form.tsx';
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
        <AlertForm settings={settings} onDone={() => setOpen(false)} />
      </Dialog>
    </Card>
  );
}

/** The parts of the rule, so that each is compared with what somebody else has stored. Null: the default. */
type Stored = { etag: string; on: boolean; pause: boolean } & {
  [part in 'bounces' | 'complaints']: string | null;
} & { min: number | null };

const storedIn = ({ etag, reputation_alert: rule }: ProjectSettings): Stored => ({ etag, ...rule });

const onOrOff = (isOn: boolean): string => (isOn ? 'on' : 'off');
const orDefault = (value: string | number | null): string =>
  value === null ? 'default of the installation' : String(value);

const FIELDS = {
  on: ['Alert', onOrOff],
  bounces: ['Bounces', orDefault],
  complaints: ['Complaints', orDefault],
  min: ['Minimum number of recipients', orDefault],
  pause: ['Hold new mail', onOrOff],
} as const;

/** The service names a refused part by its path. */
const nameOf = (part: string): string => `reputation_alert.${part}`;

function ruleIn(form: FormData): Omit<Stored, 'etag'> {
  const text = (name: string): string | null => textOf(form, nameOf(name)).trim() || null;
  const min = text('min');
  return {
    on: form.get(nameOf('on')) !== null,
    pause: form.get(nameOf('pause')) !== null,
    bounces: text('bounces'),
    complaints: text('complaints'),
    min: min === null ? null : Number(min),
  };
}

function AlertForm(props: { settings: ProjectSettings; onDone: () => void }): ReactNode {
  const { settings, onDone } = props;
  const api = useApi();
  const reload = useSettingsChanged();
  const path = { id: api.scope.project };
  return (
    <SharedForm
      action="Save"
      object={storedIn(settings)}
      of={{ target_id: api.scope.project }}
      fields={FIELDS}
      bodyOf={ruleIn}
      change={(rule, headers) => {
        const body = { reputation_alert: rule };
        return api.call('updateProjectSettings', { path, body, headers });
      }}
      read={async () => storedIn(await api.call('getProjectSettings', { path }))}
      onDone={async () => {
        await reload();
        onDone();
      }}
    >
      {(rule) => <AlertFields rule={rule} />}
    </SharedForm>
  );
}

function AlertFields({ rule }: { rule: Stored }): ReactNode {
  return (
    <>
      <Check name={nameOf('on')} isOn={rule.on} label="Alert when a domain is above a threshold" />
      <Field
        label="Bounces"
        name={nameOf('bounces')}
        defaultValue={rule.bounces ?? ''}
        placeholder="5%"
      />
      <Field
        label="Complaints"
        name={nameOf('complaints')}
        defaultValue={rule.complaints ?? ''}
        placeholder="0.3%"
      />
      <Field
        label="Minimum number of recipients"
        name={nameOf('min')}
        type="number"
        min={1}
        max={1_000_000}
        defaultValue={rule.min ?? ''}
      />
      <Check name={nameOf('pause')} isOn={rule.pause} label="Hold new mail of that domain" />
      <p className="text-sm text-muted">An empty field uses the default of the installation.</p>
    </>
  );
}

function Check({ name, isOn, label }: { name: string; isOn: boolean; label: string }): ReactNode {
  return (
    <label className="flex items-center gap-2 text-sm">
      <input type="checkbox" name={name} defaultChecked={isOn} className="size-4 shrink-0" />
      {label}
    </label>
  );
}
