/** The variables of a template: names, types, defaults, and sample values for the preview. */
import { Plus, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { Button, IconButton } from '../../ui/button.tsx';
import { INPUT } from '../../ui/field.tsx';
import { type DraftVariable, newVariable, TYPES, type VariableType, withType } from './draft.ts';

type Props = {
  variables: readonly DraftVariable[];
  isReadOnly: boolean;
  onChange: (variables: readonly DraftVariable[]) => void;
};

export function TemplateVariables({ variables, isReadOnly, onChange }: Props): ReactNode {
  const replace = (changed: DraftVariable): void =>
    onChange(variables.map((one) => (one.key === changed.key ? changed : one)));
  return (
    <div className="space-y-3">
      <p className="text-sm text-muted">
        Declare every variable that the template uses. Sample values are for the preview and test
        emails. They are not saved.
      </p>
      {variables.map((variable) => (
        <Variable
          key={variable.key}
          variable={variable}
          isReadOnly={isReadOnly}
          onChange={replace}
          onRemove={() => onChange(variables.filter(({ key }) => key !== variable.key))}
        />
      ))}
      {!isReadOnly && (
        <Button onClick={() => onChange([...variables, newVariable('')])}>
          <Plus size={14} aria-hidden /> Add a variable
        </Button>
      )}
    </div>
  );
}

function Variable(props: {
  variable: DraftVariable;
  isReadOnly: boolean;
  onChange: (variable: DraftVariable) => void;
  onRemove: () => void;
}): ReactNode {
  const { variable, isReadOnly, onChange, onRemove } = props;
  const { name, type, isOptional, fallback, sample } = variable;
  const called = name === '' ? 'the new variable' : name;
  return (
    <fieldset className="space-y-2 rounded-lg border border-line p-3">
      <legend className="sr-only">{called}</legend>
      <div className="flex gap-2">
        <input
          aria-label="Variable name"
          value={name}
          readOnly={isReadOnly}
          placeholder="name"
          onChange={({ target }) => onChange({ ...variable, name: target.value })}
          className={`${INPUT} font-mono`}
          autoComplete="off"
          spellCheck={false}
        />
        <select
          aria-label={`Type of ${called}`}
          value={type}
          disabled={isReadOnly}
          onChange={({ target }) => onChange(withType(variable, target.value as VariableType))}
          className={`${INPUT} own-select w-28!`}
        >
          {TYPES.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        {!isReadOnly && (
          <IconButton label={`Remove ${called}`} onClick={onRemove}>
            <X size={15} aria-hidden />
          </IconButton>
        )}
      </div>
      <label className="flex items-center gap-2 text-sm">
        <input
          type="checkbox"
          checked={isOptional}
          disabled={isReadOnly}
          onChange={({ target }) => onChange({ ...variable, isOptional: target.checked })}
        />
        Optional
      </label>
      {isOptional && (
        <Value
          label="Default value"
          of={called}
          type={type}
          value={fallback}
          isReadOnly={isReadOnly}
          onChange={(typed) => onChange({ ...variable, fallback: typed })}
        />
      )}
      <Value
        label="Sample value"
        of={called}
        type={type}
        value={sample}
        placeholder={isOptional ? 'not set' : ''}
        onChange={(typed) => onChange({ ...variable, sample: typed })}
      />
    </fieldset>
  );
}

type ValueProps = {
  label: string;
  /** The variable. */
  of: string;
  type: VariableType;
  value: string;
  placeholder?: string;
  isReadOnly?: boolean;
  onChange: (typed: string) => void;
};

function Value({ label, of, ...rest }: ValueProps): ReactNode {
  return (
    <label className="block text-sm text-muted">
      {label}
      <span className="sr-only"> of {of}</span>
      <span className="mt-1 block text-text">
        <Input {...rest} />
      </span>
    </label>
  );
}

function Input(props: Omit<ValueProps, 'label' | 'of'>): ReactNode {
  const { type, value, placeholder, isReadOnly = false, onChange } = props;
  if (type === 'boolean') {
    return (
      <select
        value={value}
        disabled={isReadOnly}
        onChange={({ target }) => onChange(target.value)}
        className={`${INPUT} own-select`}
      >
        {['', 'true', 'false'].map((one) => (
          <option key={one} value={one}>
            {one === '' ? '–' : one}
          </option>
        ))}
      </select>
    );
  }
  const all = {
    value,
    placeholder,
    readOnly: isReadOnly,
    onChange: ({ target }: { target: { value: string } }) => onChange(target.value),
  };
  if (type === 'list' || type === 'object') {
    const look = `${INPUT} h-auto! py-1.5 font-mono text-xs`;
    return <textarea {...all} rows={4} spellCheck={false} className={look} />;
  }
  return <input {...all} className={INPUT} autoComplete="off" />;
}
