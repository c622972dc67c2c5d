//! Model references and configurations.

use toolwright_models::{ModelConfig, ModelRef, Provider};

#[test]
fn model_ref_is_parsed_into_provider_and_model() {
    let parsed: ModelRef = "OpenAI/gpt-3.5-turbo".parse().unwrap();
    assert_eq!(parsed, ModelRef { provider: Provider::OpenAi, model: "gpt-3.5-turbo".into() });
    assert_eq!(parsed.to_string(), "openai/gpt-3.5-turbo");
    let nested: ModelRef = "open_router/anthropic/claude-sonnet-4".parse().unwrap();
    assert_eq!(nested.model, "anthropic/claude-sonnet-4");
    assert_eq!(nested.provider.as_str(), "open_router");
    assert_eq!("gemini/gemini-2.5-pro".parse::<ModelRef>().unwrap().provider, Provider::Google);
}

#[test]
fn invalid_model_ref_is_rejected() {
    for text in ["", "gpt-4o", "/gpt-4o", "openai/", "acme/llm"] {
        assert!(text.parse::<ModelRef>().is_err(), "{text}");
    }
}

#[test]
fn every_listed_provider_name_parses() {
    let names = Provider::names();
    assert!(names.len() > 30);
    for name in names {
        assert_eq!(name.parse::<Provider>().unwrap().as_str(), name);
    }
}

#[test]
fn debug_output_does_not_contain_the_key() {
    let config = ModelConfig { api_key: Some("sk-very-secret".into()), ..ModelConfig::new(Provider::OpenAi, "m") };
    assert!(!format!("{config:?}").contains("sk-very-secret"));
}
