/** The forms that change one limit of a project. An empty field restores the default of the installation. */
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { ProjectSettings, ProjectSettingsChange } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { Field, textOf } from '../../ui/field.tsx';
import { megabytes } from '../../lib/numbers.ts';
import { inWords } from '../../lib/time.ts';
import { Select } from '../../ui/select.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';

export type Category = NonNullable<ProjectSettingsChange['limits']>[number]['category'];

export type Setting =
  | {
      kind: 'rate';
      category: Category;
      environment: 'live' | 'test';
      value: { max: number; window_s: number };
    }
  | { kind: 'domains'; value: number }
  | { kind: 'storage'; bytes: number | null }
  | { kind: 'retention'; field: 'content' | 'metadata'; value: string | null };

/** The settings of a project, with the one limit that this form changes. */
type Stored = ProjectSettings & { limit: Limit | number | string | null };
type Limit = { max: number; window_s: number };

export function LimitForm(props: {
  setting: Setting;
  settings: ProjectSettings;
  onDone: () => void;
}): ReactNode {
  const { setting, settings, onDone } = props;
  const api = useApi();
  const reload = useSettingsChanged();
  const path = { id: api.scope.project };
  const stored = (now: ProjectSettings): Stored => ({ ...now, limit: limitIn(setting, now) });
  return (
    <SharedForm
      action="Save"
      object={stored(settings)}
      of={{ target_id: api.scope.project }}
      fields={{ limit: ['Limit', (limit) => limitInWords(setting, limit)] }}
      bodyOf={(form: FormData): Pick<Stored, 'limit'> => ({ limit: typedLimit(setting, form) })}
      change={({ limit }, headers) => {
        const body = changeOf(setting, limit);
        return api.call('updateProjectSettings', { path, body, headers });
      }}
      read={async () => stored(await api.call('getProjectSettings', { path }))}
      onDone={async () => {
        await reload();
        onDone();
      }}
    >
      {() => (
        <>
          <Fields setting={setting} />
          <p className="text-sm text-muted">
            Leave it empty to use the default of the installation.
          </p>
        </>
      )}
    </SharedForm>
  );
}

/** Reads again what depends on the settings of the present project. */
export function useSettingsChanged(): () => Promise<void> {
  const api = useApi();
  const cache = useQueryClient();
  return () => cache.invalidateQueries({ queryKey: api.key });
}

const WINDOWS = [
  ['1', '1 second'],
  ['60', '1 minute'],
  ['3600', '1 hour'],
  ['86400', '1 day'],
] as const;

function Fields({ setting }: { setting: Setting }): ReactNode {
  switch (setting.kind) {
    case 'rate':
      return <RateFields value={setting.value} />;
    case 'domains':
      return (
        <Field
          label="Domains in each environment"
          name="domains_max"
          type="number"
          min={1}
          max={1_000_000}
          defaultValue={setting.value}
        />
      );
    case 'storage':
      return (
        <Field
          label="Stored mail, in MB"
          name="storage_max_bytes"
          type="number"
          min={32}
          defaultValue={setting.bytes === null ? '' : Math.round(setting.bytes / MIB)}
        />
      );
    case 'retention':
      return (
        <Field
          label="Kept for"
          name={setting.field}
          placeholder="30d"
          hint="Days or hours, such as 30d or 36h, at least a day."
          pattern="[0-9]+[dh]"
          defaultValue={setting.value ?? ''}
          autoComplete="off"
        />
      );
  }
}

function RateFields({ value }: { value: { max: number; window_s: number } }): ReactNode {
  const window = String(value.window_s);
  const isListed = WINDOWS.some(([seconds]) => seconds === window);
  return (
    <div className="grid grid-cols-2 gap-3">
      <Field
        label="At most"
        name="limits"
        type="number"
        min={1}
        max={999_999_999}
        defaultValue={value.max}
      />
      <Select
        label="In"
        name="window_s"
        chosen={window}
        options={isListed ? WINDOWS : [...WINDOWS, [window, `${window} seconds`]]}
      />
    </div>
  );
}

const MIB = 1024 * 1024;

function typedLimit(setting: Setting, form: FormData): Stored['limit'] {
  const text = (name: string): string => textOf(form, name).trim();
  const number = (name: string): number | null => (text(name) === '' ? null : Number(text(name)));
  switch (setting.kind) {
    case 'rate': {
      const max = number('limits');
      return max === null ? null : { max, window_s: Number(text('window_s')) };
    }
    case 'domains':
      return number('domains_max');
    case 'storage': {
      const typed = number('storage_max_bytes');
      return typed === null ? null : typed * MIB;
    }
    case 'retention':
      return text(setting.field) || null;
  }
}

/** Only rates say whether they are the default of the installation. */
function limitIn(setting: Setting, settings: ProjectSettings): Stored['limit'] {
  switch (setting.kind) {
    case 'rate': {
      const { category, environment } = setting;
      const same = settings.limits.find(
        (one) => one.category === category && one.environment === environment,
      );
      return same?.is_own ? same.limit : null;
    }
    case 'domains':
      return settings.domains_max;
    case 'storage':
      return settings.storage.max_bytes;
    case 'retention':
      return settings[setting.field];
  }
}

function limitInWords(setting: Setting, limit: Stored['limit']): string {
  if (limit === null) return 'default of the installation';
  if (typeof limit === 'object') {
    return `${limit.max.toLocaleString()} in ${inWords(limit.window_s)}`;
  }
  if (typeof limit === 'string') return limit;
  return setting.kind === 'storage' ? megabytes(limit) : limit.toLocaleString();
}

function changeOf(setting: Setting, limit: Stored['limit']): ProjectSettingsChange {
  switch (setting.kind) {
    case 'rate': {
      const { category, environment } = setting;
      return {
        limits: [{ category, environment, limit: typeof limit === 'object' ? limit : null }],
      };
    }
    case 'domains':
      return { domains_max: typeof limit === 'number' ? limit : null };
    case 'storage':
      return { storage_max_bytes: typeof limit === 'number' ? limit : null };
    case 'retention':
      return { [setting.field]: limit };
  }
}
