/** The forms that change one limit of a project. An empty field restores the default of the installation. */
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { ProjectSettingsChange } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { Select } from '../../ui/select.tsx';

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

export function LimitForm({
  setting,
  onDone,
}: {
  setting: Setting;
  onDone: () => void;
}): ReactNode {
  const change = useChangeSettings();
  const send = async (form: FormData): Promise<void> => {
    await change(changeOf(setting, form));
    onDone();
  };
  return (
    <ActionForm action="Save" send={send}>
      <Fields setting={setting} />
      <p className="text-sm text-muted">Leave it empty to use the default of the installation.</p>
    </ActionForm>
  );
}

/** Changes settings of the present project, and reads again what depends on them. */
export function useChangeSettings(): (body: ProjectSettingsChange) => Promise<void> {
  const api = useApi();
  const cache = useQueryClient();
  return async (body) => {
    await api.call('updateProjectSettings', { path: { id: api.scope.project }, body });
    await cache.invalidateQueries({ queryKey: api.key });
  };
}

const WINDOWS = [
  ['1', 'a second'],
  ['60', 'a minute'],
  ['3600', 'an hour'],
  ['86400', 'a day'],
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
        name="max"
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

function changeOf(setting: Setting, form: FormData): ProjectSettingsChange {
  const text = (name: string): string => textOf(form, name).trim();
  const number = (name: string): number | null => (text(name) === '' ? null : Number(text(name)));
  switch (setting.kind) {
    case 'rate': {
      const max = number('max');
      const { category, environment } = setting;
      const limit = max === null ? null : { max, window_s: Number(text('window_s')) };
      return { limits: [{ category, environment, limit }] };
    }
    case 'domains':
      return { domains_max: number('domains_max') };
    case 'storage': {
      const megabytes = number('storage_max_bytes');
      return { storage_max_bytes: megabytes === null ? null : megabytes * MIB };
    }
    case 'retention':
      return { [setting.field]: text(setting.field) || null };
  }
}
